"""Device memory that outlives a call. In reading order:

``packing`` (offsets from lifetimes), ``layout`` (the parts of a plan), ``block`` (an allocation),
``weights``, ``arena`` (memory of a call), ``ownership`` and ``waiting`` (no locks), ``pool``.
"""
