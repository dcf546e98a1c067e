"""The structure of arguments and results, free of torch."""

import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

CLASSES = ("named", "record", "object")
ORDERED = "OrderedDict"
TAKEN = frozenset(
    """
    Any AotpackError ArgumentError AssertionFailed ClassVar ClosedError Device DeviceError Exception
    Generic Literal Mapping Model NDArray NamedTuple PackageError Path Protocol Self Sequence
    TypeVar TypedDict VerifyError WeightError bool container dataclass dict float int list load
    naming_keywords object os overload property slice str sys tuple
    """.split()
)
"""Names that the module of a package has already."""


Constant: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Tree:
    """A pytree; leaves are numbered in order of appearance.

    ``kind`` is one of "leaf", "none", "tuple", "list", "dict", "named" (a named tuple), "record" (a
    dataclass), "object" (a dict whose keys are also attributes, such as a transformers
    ModelOutput), "constant" (a Python value that is part of the structure, held in ``value``).
    ``keys`` name the children. ``name`` is that of the class of a "named", "record" or "object",
    and ``ORDERED`` for a "dict" that is one.
    ``fields`` are the attributes of a "record" or "object"; those that are no keys are None.
    Results follow the order of the keys ``in_order`` of a "dict", so a call gives them in it.
    """

    kind: str
    children: tuple["Tree", ...] = ()
    keys: tuple[str, ...] = ()
    value: Constant = None
    name: str = ""
    fields: tuple[str, ...] = ()
    in_order: tuple[str, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        """The fields of a class, in order."""
        return self.keys if self.kind == "named" else self.fields

    def walk(self) -> Iterator["Tree"]:
        """The node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def classes_of(*trees: Tree) -> dict[str, tuple[Tree, ...]]:
    """The nodes of each class in the trees, by a name of its own in the package's module."""
    found: dict[tuple[str, str, tuple[str, ...]], list[Tree]] = {}
    for node in (node for tree in trees for node in tree.walk() if node.kind in CLASSES):
        found.setdefault((node.kind, node.name, node.attributes), []).append(node)
    named: dict[str, tuple[Tree, ...]] = {}
    for (_, name, _), nodes in found.items():
        own = name.rpartition(".")[2]
        while own in TAKEN or own in named or own.startswith("_") or keyword.iskeyword(own):
            own = f"{own.lstrip('_')}_"
        named[own] = tuple(nodes)
    return named
