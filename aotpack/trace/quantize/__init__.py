"""Quantised weights of linear layers and embeddings, and operators that quantise.

``codes`` (weights as codes and scales, and back), ``layers`` (modules whose weight is made of
codes, with the error of each), ``formats`` (how checkpoints of others store codes),
``checkpoints`` (their files into a model), ``fake_codes`` (rounding to codes and back) and
``decomposed`` (the operators of PT2E).
"""
