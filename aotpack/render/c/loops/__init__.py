"""Pointwise, reduction and scatter kernels in C."""
