"""The languages of kernels: each is a folder beside this module and an entry of ``LANGUAGES``.

An entry has texts for all operators and reductions of the IR, and its reserved names. The wrapper,
which is Python, and the templates in Python reserve names too.
"""

from aotpack.ir.kernels.tiles import Tile
from aotpack.render.c import reserved as c
from aotpack.render.c.kernels import C_TILES, c_kernel
from aotpack.render.c.monoids import C_MONOIDS
from aotpack.render.c.operators import C_TEXTS
from aotpack.render.emit.language import Language
from aotpack.render.emit.reserved import PYTHON_NAMES, Reserved, defined_names, given_names
from aotpack.render.environment import template_texts
from aotpack.render.triton import reserved as triton
from aotpack.render.triton.early_start import admitting_at_end, admitting_first, without_early_start
from aotpack.render.triton.kernels import TRITON_TILES, triton_kernel
from aotpack.render.triton.launches.horizontal import horizontal_launch
from aotpack.render.triton.launches.last_block import last_block_launch
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.operators import TRITON_TEXTS
from aotpack.render.triton.stores import STORES
from aotpack.render.wrapper import WRAPPER_NAMES

TRITON = Language(
    name="triton",
    comment_mark=triton.COMMENT_MARK,
    operators=TRITON_TEXTS,
    monoids=tuple(TRITON_MONOIDS),
    names=triton.TRITON_NAMES,
    tiles=TRITON_TILES,
    render=triton_kernel,
    horizontal=horizontal_launch,
    last_block=last_block_launch,
    stores=STORES,
    without_early_start=without_early_start,
    admitting_first=admitting_first,
    admitting_at_end=admitting_at_end,
)
C = Language(
    name="c",
    comment_mark=c.COMMENT_MARK,
    operators=C_TEXTS,
    monoids=tuple(C_MONOIDS),
    names=c.C_NAMES,
    tiles=C_TILES,
    render=c_kernel,
)
LANGUAGES = (TRITON, C)


def language_of(tile: Tile) -> Language:
    """The language of the kernels of a tile."""
    return next(language for language in LANGUAGES if isinstance(tile, language.tiles))


def reserved_names() -> Reserved:
    """The names that no size of a model may have."""
    device, every = template_texts("device_*.py.jinja"), template_texts("*.py.jinja")
    found = PYTHON_NAMES | WRAPPER_NAMES | defined_names(device)
    found |= given_names(text for text in every if text not in device)
    for language in LANGUAGES:
        found |= language.names
    return found
