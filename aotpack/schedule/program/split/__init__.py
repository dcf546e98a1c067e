"""Long reductions with few results become two halves, so that all multiprocessors work.

In reading order: ``split_reduction`` (the pass) with ``split_limits``, ``row_aligned_split`` and
``scattered_rows`` (parts that other shapes have), ``split_rest`` (elements in no part) and
``merge_parts`` (the second half, by kind).
"""
