"""Sorts as counting and merging loops.

In reading order: ``expand_sorts`` (the pass), ``sort_parts`` (rows, and what they expand to),
``select_first`` (top-k).
"""
