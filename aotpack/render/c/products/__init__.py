"""Matrix products and attention in C.

In reading order: ``operand_roles`` (which factor is packed), ``split`` (an axis as two), ``levels``
and ``slots`` (lines for each loop of a template, what it reads and stores), ``matmul``, ``gemv``
(few rows), ``attention``.
"""
