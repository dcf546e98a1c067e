"""A device that computes on host memory through Triton's interpreter. For tests.

In reading order: ``device`` (the port), ``libdevice``, ``reduction``, ``bfloat16`` and
``block_types`` (replacements in the interpreter), ``cluster_memory`` and ``ring_memory`` (assembly
of cluster reductions and row pipelines).
"""
