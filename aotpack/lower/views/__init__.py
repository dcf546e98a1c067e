"""Operators that only move elements. In reading order:

``view`` (index maps, slices), ``rearrange``, ``strided``, ``concat`` (and padding).
"""
