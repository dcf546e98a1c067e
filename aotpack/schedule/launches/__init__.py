"""Launches: their order, and which kernels share one.

In reading order: ``order``, ``peak`` (an order for memory), ``last_block``, ``horizontal``,
``user_partition``, ``hold_loops`` (turns of a loop), ``next_codes`` (prefetches of a launch for a
later one), ``unfused`` (other forms, for tuning).
"""
