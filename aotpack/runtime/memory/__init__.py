"""Device memory that outlives a call. In reading order:

``packing`` (offsets from lifetimes), ``layout`` (the parts of a plan), ``weight_files`` (where they
lie), ``weights`` with ``weight_names`` and ``adapters`` (names of PEFT), ``derived`` and
``staged`` (the weight program's), ``streaming`` (from a file to the device), ``arena`` (memory of a
call), ``ownership`` and ``waiting`` (without locks), ``pool`` (of arenas).
"""
