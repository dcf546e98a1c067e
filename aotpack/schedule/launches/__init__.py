"""The order of launches, and which kernels share one."""
