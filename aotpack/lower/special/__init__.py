"""Special functions: formulas over elementwise operators. In reading order:

``functions`` (error functions, Airy), ``series`` (fitted coefficients), ``gamma``, ``zeta``,
``bessel``, ``chebyshev``, ``orthogonal``.
"""
