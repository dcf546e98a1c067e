"""Passes from program to program, before fusion.

In reading order: ``dead_code``, ``weight_program``, ``fixed_order`` (scatters), ``insert_copies``,
``merge_products``, ``spare_roundings``, ``realize`` with ``prologue``, ``gelu``, ``causal_mask``,
``attend_before_append`` (caches), ``online_softmax``, ``copy_windows`` (convolutions),
``weight_panels`` (processors), ``sum_groups`` (GPUs), ``split`` (long reductions).
"""
