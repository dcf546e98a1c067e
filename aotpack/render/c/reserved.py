"""Names that C kernels have for themselves: none, for a size has a prefix there (``C.size``)."""

from aotpack.render.emit.reserved import Reserved

COMMENT_MARK = "//"  # of lines
C_NAMES = Reserved()
