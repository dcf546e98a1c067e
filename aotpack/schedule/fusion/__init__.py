"""Fusion: which operations share a kernel, and why others do not.

In reading order: ``code_scales`` and ``late_scales`` (what moves behind products), ``fuse`` (the
pass), ``group`` (a kernel under construction), ``solve`` (its indices), ``groups`` (all of them),
``paired_products``, ``group_order`` (cycles), ``merge_rounds`` (finished kernels), ``refusal`` (the
reasons), ``pressure`` (memory), ``naming``, ``rounding``, ``concat_in_place``.
"""
