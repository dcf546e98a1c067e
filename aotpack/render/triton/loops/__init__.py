"""Pointwise, reduction, scan and scatter kernels in Triton.

In reading order: ``loops`` (a kernel by its tile's strategy), ``walk`` (the strategies' port),
``loop_builder`` (a loop kernel's state, the partition of rows over programs) with ``nearest``
(casts of rounded numbers), ``points`` and ``scatter``, ``reductions`` (blocks in registers) with
``softmax``, ``persistent_row``, ``unrolled_row`` (windows), ``look_back`` (one-pass scans),
``reduction_loops`` and ``looped_row`` (loops over blocks) with ``row_end``, ``cluster_reduction``,
``row_pipeline``, ``turns`` with ``turns_contexts`` (counted loops).
"""
