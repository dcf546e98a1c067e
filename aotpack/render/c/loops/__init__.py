"""Pointwise, reduction and scatter kernels in C.

In reading order: ``nest`` (flat axes as loop nests), ``loops`` (pointwise kernels, and functions
for all), ``reductions`` (accumulators), ``walk_plan``, ``walk_loops`` and ``walks`` (reduction
kernels), ``scatter``. A walk is one pass over the inner axis: a loop nest. An item is a unit of
work sharing between threads.
"""
