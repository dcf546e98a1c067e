"""Golden data: what a package tests itself with. Modules in reading order:

``ways`` (the entry: eager and the exported program must agree), ``budget`` and ``cost``, ``inputs``
(kept or drawn), ``record``, ``reference`` (float64) with ``meanings``, ``noise`` (other roundings
of the reference), ``bounds`` (what elements may be), ``results`` (kept whole or sampled).
"""
