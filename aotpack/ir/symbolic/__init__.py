"""Sizes and indices: canonical integer expressions, their division, and facts about them."""
