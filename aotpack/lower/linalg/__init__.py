"""Matrix products, convolutions and attention. In reading order:

``matmul``, ``grouped_mm``, ``attention``, ``windows`` (geometry), ``convolution``,
``conv_transpose``, ``patches`` (im2col), ``distance``.
"""
