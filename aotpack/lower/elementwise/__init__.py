"""Operators that compute each element by itself: arithmetic, activations, conversions."""
