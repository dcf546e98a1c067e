"""Modules that are prepared before they are exported.

``subclasses`` (quantised tensors of torchao as their parts) with ``four_bits`` (NVFP4),
``adapters`` (the factors of PEFT), ``state_arguments`` (caches in arguments and results as state).
"""
