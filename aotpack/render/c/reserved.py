"""Names that C kernels have for themselves: none, for a size has a prefix there (``C.size``)."""

from aotpack.render.emit.reserved import Reserved

C_NAMES = Reserved()
