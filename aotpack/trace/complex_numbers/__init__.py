"""Operators of complex tensors in terms of others.

Modules in reading order: ``formulas`` (in parts or pairs), ``expansion`` (a call -> a graph of
other calls).
"""
