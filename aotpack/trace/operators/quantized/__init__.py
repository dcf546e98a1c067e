"""Operators that quantise, in terms of others.

``fake_codes`` (rounding to codes and back, as in QAT) and ``decomposed`` (the operators of PT2E).
"""
