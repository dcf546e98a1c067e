"""Operators and reductions as data: types, exact meaning in numpy, folding, accuracy bounds.

Operators: ``reference`` (numpy functions, with ``float8``; ``quantization`` names codes),
``opinfo`` (a row of the table), ``optable`` (the table), ``value_types`` (the type rules), ``fold``
(simplification) and ``conditions`` (bounds checks as values). Reductions: ``monoid`` (a row),
``monoids`` (the table) and ``extremes`` (those that find positions).
"""
