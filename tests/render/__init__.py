"""Kernels and wrappers as text."""
