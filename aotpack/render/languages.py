"""The languages of kernels: each is a folder beside this module and an entry of ``LANGUAGES``.

An entry has texts for all operators and reductions of the IR, and its reserved names. The wrapper,
which is Python, and the templates in Python reserve names too.
"""

from collections.abc import Collection
from dataclasses import dataclass

from aotpack.render.c.monoids import C_MONOIDS
from aotpack.render.c.operators import C_TEXTS
from aotpack.render.c.reserved import C_NAMES
from aotpack.render.emit.reserved import PYTHON_NAMES, Reserved, defined_names, given_names
from aotpack.render.emit.texts import Texts
from aotpack.render.environment import template_texts
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.operators import TRITON_TEXTS
from aotpack.render.triton.reserved import TRITON_NAMES
from aotpack.render.wrapper import WRAPPER_NAMES


@dataclass(frozen=True, slots=True)
class Language:
    """A language: its folder's name, operator texts, reductions that have texts, reserved names."""

    name: str
    operators: Texts
    monoids: Collection[str]
    names: Reserved


LANGUAGES = (
    Language("triton", TRITON_TEXTS, tuple(TRITON_MONOIDS), TRITON_NAMES),
    Language("c", C_TEXTS, tuple(C_MONOIDS), C_NAMES),
)


def reserved_names() -> Reserved:
    """The names that no size of a model may have."""
    device, every = template_texts("device_*.py.jinja"), template_texts("*.py.jinja")
    found = PYTHON_NAMES | WRAPPER_NAMES | defined_names(device)
    found |= given_names(text for text in every if text not in device)
    for language in LANGUAGES:
        found |= language.names
    return found
