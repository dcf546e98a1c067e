"""Operators and reductions as data: types, exact meaning in numpy, folding, accuracy bounds."""
