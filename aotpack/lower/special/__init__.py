"""Special functions: formulas over elementwise operators. In reading order:

``functions`` (error functions, Airy), ``series`` (fitted coefficients), ``gamma``, ``zeta``,
``incomplete_gamma`` (with ``temme``), ``bessel``, ``chebyshev``, ``orthogonal``.
"""
