"""Device memory that outlives a call. In reading order:

``packing`` (offsets from lifetimes), ``layout`` (the parts of a plan), ``arena``, ``weights``.
"""
