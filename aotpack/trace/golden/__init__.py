"""Golden data: what a package tests itself with. Modules in reading order:

``ways`` (the entry: eager, the exported program and the graph must agree), ``decomposed`` with
``blame``, ``budget`` and ``cost``, ``inputs`` (kept or drawn), ``record``, ``configurations`` (of
the user's Triton kernels), ``reference`` (float64) with ``meanings`` (``exceptional``,
``incomplete_gamma``) and ``pieces`` (of large weights), ``noise`` (other roundings of the
reference), ``tf32``, ``bounds`` (what elements may be), ``results`` (kept whole or sampled).
"""
