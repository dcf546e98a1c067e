"""Operators that move no data or copy it unchanged: views, strides, concatenation."""
