"""The checks of a call. In reading order:

``guards`` (the signature), ``memory`` (tensors without any), ``changes`` (arguments changed in
place), ``plans`` (against the manifest), ``assertions`` (conditions on data), ``counted``
(sizes that data decide), ``debugging`` (failing launches and NaN), ``audit`` (processes, files and
sockets).
"""
