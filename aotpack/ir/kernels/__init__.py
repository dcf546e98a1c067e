"""The result of scheduling: kernels, tiles, schedules, and their memory accesses.

In reading order: ``tiles`` (block sizes and variants), ``kernel`` (kernels and schedules),
``access`` (loads and stores as offsets), ``blocks`` (accesses that are rectangles), ``rows``
(strides with gaps), ``traffic`` (bytes and arithmetic), ``source`` (texts). Some forms need more:
``runs`` (scales of groups), ``one_row`` (codes in the matrix unit), ``row_reads`` (row pipelines),
``cluster_mailbox`` (cluster reductions), ``last_block``, ``partial_sums`` (memory of shared sums),
``turns`` (loops in a launch), and attention ``grouped_heads``, ``key_splits``, ``key_range``,
``appended_rows`` (of caches) and ``head_blocks``.
"""
