"""Fusion: which operations share a kernel, and why others do not.

In reading order: ``fuse`` (the pass), ``group`` (kernels under construction), ``group_order``
(cycles), ``refusal`` (the reasons), ``pressure`` (memory), ``naming``, ``rounding``,
``concat_in_place``.
"""
