"""Operators of complex tensors in terms of others.

Modules in reading order: ``parts`` (pairs and types), ``elementwise`` and ``formulas`` (a formula
for each operator), ``expansion`` (a call -> a graph of other calls).
"""
