"""What scheduling decides: kernels, tiles, schedules, and where kernels touch memory.

In reading order: ``tiles`` (block sizes and variants), ``kernel`` (kernels and schedules),
``access`` (loads and stores as offsets), ``blocks`` (accesses that are rectangles), ``rows``
(strides with gaps), ``traffic`` (bytes and arithmetic). Then what single forms of kernels need:
``row_reads`` (row pipelines), ``cluster_mailbox`` (cluster reductions), ``last_block``.
"""
