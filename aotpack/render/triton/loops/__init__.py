"""Pointwise, reduction, scan and scatter kernels in Triton."""
