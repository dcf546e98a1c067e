"""The caller's arrays: torch, CuPy, numpy and DLPack in, the same kind out. In reading order:

``frameworks`` (the port, numpy and CuPy), ``torch_tensors``, ``dlpack``, ``device_array``,
``orders``, ``complex_views``.
"""
