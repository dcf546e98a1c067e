"""Tiles: for each kernel a closed list of variants, the block sizes it is compiled with.

In reading order: ``choose`` (the pass), ``row_tiles``, ``unrolled_rows``, ``tile_2d``,
``long_rows``, ``row_pipeline``, ``row_residency`` (rows that are not split), ``padding``
(strides), ``matmul`` with ``matmul_costs``, ``orientation`` (which side lanes go along),
``few_rows``, ``one_row`` (of codes), ``attention``, ``attention_roles``, ``few_queries``,
``divisibility``, ``candidates`` (for tuning), ``host`` (CPUs).
"""
