"""Operators that compute each element independently. In reading order:

``pointwise`` (operators of the op table), ``activation`` (formulas), ``arithmetic``, ``predicate``,
``choose``, ``convert``, ``create``, ``floats``, ``complex_pairs``, ``random``, ``assertion``.
"""
