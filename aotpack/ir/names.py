"""Names of sizes that are safe everywhere they are printed: loops, kernels, the wrapper.

And names for what passes add to a program.
"""

import builtins
import keyword
import re
from collections.abc import Container

_KERNEL_NAMES = (
    "before clear fence first_line group groups is_before is_last lane lines parts place publish"
    " row turn wait"
    " acc arch base batch_head batch_number d_column d_row e first first_i first_m h i i_tiles j"
    " j_clear j_column j_end j_start k k_column k_row k_start key libdevice line logits m m_start"
    " m_tiles math n n_start n_tiles new_top number numpy part pick plan probability program query"
    " r r_start rest rows shrink tile tl top triton value weight x x_tiles y y_tiles z"
    " async_commit_group async_copy async_wait_group at cluster_wait clusters mailbox"
    " mbarrier_expect mbarrier_wait next_row opaque open_mailbox open_ring r_block ring slot stage"
    " step"
    " Branch Buffer Call Counters Launch Loop Part Plan"
)
_RESERVED = frozenset(
    [*_KERNEL_NAMES.split(), *keyword.kwlist, *keyword.softkwlist, *dir(builtins)]
)
_PATTERN = re.compile(
    r"(acc|b|carry|g|h|i|kept|p|r|t|x)\d+|.*_(ptr|mask)"
    r"|(across|combine|group|load_shared|merge|receive|scatter|send)_.*"
)


def safe_size_name(name: str) -> str:
    """``name``, with an underscore where it would meet a name of generated code."""
    return name + "_" if name in _RESERVED or _PATTERN.fullmatch(name) else name


def free_name(stem: str, taken: Container[str]) -> str:
    """``stem``, or where something has that name, the first of ``stem_1``, ``stem_2``, ..."""
    name, number = stem, 0
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    return name
