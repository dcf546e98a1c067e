"""Names that lines of Triton kernels assign; those of templates are read from the templates.

A size is a parameter under its own name, so it must not have one of these.
"""

from aotpack.render.emit.reserved import Reserved

COMMENT_MARK = "#"  # of lines
_ANY_KERNEL = "h i_tiles key libdevice math numpy query r_start rest step tl triton value"
_CLUSTERS = "clusters mailbox"
_ROWS = "at next_row r_block ring slot stage"
_TURNS = "even odd sums"

TRITON_NAMES = Reserved(
    frozenset(f"{_ANY_KERNEL} {_CLUSTERS} {_ROWS} {_TURNS}".split()),
    (
        r"(acc|b|carry|g|h|i|kept|p|r|t|x)\d+",
        r".*_(ptr|mask)",
        r"[mn]\d*(_mask)?_early",
        r"(across|combine|group|load_shared|merge|receive|scatter|send)_.*",
    ),
)
