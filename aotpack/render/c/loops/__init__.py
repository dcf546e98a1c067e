"""Pointwise, reduction and scatter kernels in C.

In reading order: ``nest`` (flat axes as nests of loops), ``loops`` (pointwise kernels, and what all
share), ``reductions`` (accumulators), ``walk_plan``, ``walk_loops`` and ``walks`` (reduction
kernels: which walks there are, their loops, what each computes), ``scatter``.
"""
