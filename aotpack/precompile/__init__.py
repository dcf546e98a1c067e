"""Kernel texts and targets -> binaries with launch metadata. Nothing else imports triton.

In reading order: ``precompile``, ``request`` (a compilation as a value), ``cache``, ``pool`` and
``messages`` (compiling processes), ``worker`` (such a process) with ``signature``,
``tensor_maps``, ``kernel_module``, ``packed_halves`` (a workaround) and ``columns`` (a check),
``elf`` and ``spills`` (registers), ``host`` and ``shared_object`` (C), ``compilers`` (versions),
``tool`` (runs one), ``dump`` (of failures), ``user_kernels``, ``interpreter``.
"""

from aotpack.precompile.precompile import check_build, precompile

__all__ = ["check_build", "precompile"]
