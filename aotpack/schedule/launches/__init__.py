"""Launches: their order, and which kernels share one.

In reading order: ``order``, ``peak`` (an order for memory), ``last_block``, ``horizontal``,
``user_partition``, ``ahead`` (weights requested early), ``unfused`` (other forms, for tuning).
"""
