"""The ports to CPUs and NVIDIA GPUs. In reading order:

``device`` (the port), ``block`` (an allocation), ``cpu``, ``shared_object`` (its code), ``cuda``,
``tensor_maps`` (descriptors), ``cuda_launch`` (stream launches), ``cuda_graph``,
``cuda_executor`` (chooses between both),
``cuda_errors``, ``timing``, ``cuda_timing``, ``fork``.
"""
