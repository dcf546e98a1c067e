"""Quantised weights of linear layers and embeddings.

``codes`` (weights as codes and scales, and back), ``layers`` (modules whose weight is made of
codes, with the error of each), ``formats`` (how checkpoints of others store codes),
``configuration`` (which format one has), ``checkpoints`` (their files into a model),
``subclasses`` (tensors of torchao as their parts) with ``four_bits`` (two codes in a byte).
"""
