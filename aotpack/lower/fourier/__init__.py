"""Discrete Fourier transforms: ``operators`` (torch's), ``transform``, ``butterflies``, ``tables``.

Complex numbers are pairs of reals here, as in ``elementwise/complex_pairs``.
"""
