"""Sorts as counting and merging loops."""
