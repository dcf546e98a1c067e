"""Names that C kernels reserve: none, for sizes have a prefix there (``C.size``)."""

from aotpack.render.emit.reserved import Reserved

COMMENT_MARK = "//"  # of lines
C_NAMES = Reserved()
