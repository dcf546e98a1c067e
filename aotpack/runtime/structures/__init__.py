"""Structures of arguments and results. In reading order:

``containers`` (classes of results), ``trees`` (flattens and rebuilds), ``text`` (for people).
"""
