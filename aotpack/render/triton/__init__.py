"""Triton: kernels for GPUs and for the interpreter.

The IR as text: ``types``; ``operators`` with ``fast_operators`` and ``float8``; ``monoid`` and the
kinds of it in ``monoids`` and ``extremes``; ``reserved``, names.
Kernels, in reading order: ``kernels`` (the entry), ``contexts``, ``dialect`` (expressions),
``loops`` (pointwise and reduction kernels, scans, scatters), ``matmul`` and ``products``
(its parts), ``few_rows``, ``attention`` with ``attention_contexts`` and ``attention_roles`` (of
warps), ``launches`` (several kernels in a launch), ``stores``, ``early_start``.
"""
