"""Layers whose parameters are no plain tensors, or whose numbers other weights come with.

``subclasses`` (quantised tensors of torchao as their parts), ``adapters`` (the factors of PEFT).
"""
