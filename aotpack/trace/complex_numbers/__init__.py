"""Operators of complex tensors in terms of others.

Modules in reading order: ``parts`` (pairs and types), ``ranges`` (sizes that do not overflow),
``exponentials``, ``roots``, ``inverses`` and ``reductions`` (functions by kind), ``elementwise``
and ``formulas`` (a formula for each operator), ``expansion`` (a call -> a graph of other calls).
"""
