"""Sizes and indices: canonical integer expressions, their division, and the facts known about them."""
