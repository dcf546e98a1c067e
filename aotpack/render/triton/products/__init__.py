"""Parts of products of tiles.

``descriptors`` (factors that the copy engine loads), ``k_steps`` (steps within a digit of k),
``split_sums`` (sums that programs share), ``roles`` (of warps),
``diagonal`` and ``one_row`` (one row and codes in the matrix unit).
"""
