"""The structure of arguments and results, free of torch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tree:
    """A pytree; leaves are numbered in order of appearance.

    ``kind`` is one of "leaf", "none", "tuple", "list", "dict", "named" (a named tuple), "record" (a
    dataclass), "object" (a dict whose keys are also attributes, such as a transformers
    ModelOutput), "constant" (a Python value that is part of the structure, held in ``value``).
    ``keys`` name the children. ``name`` is that of the class of a "named", "record" or "object".
    ``fields`` are the attributes of a "record" or "object"; those that are no keys are None.
    """

    kind: str
    children: tuple["Tree", ...] = ()
    keys: tuple[str, ...] = ()
    value: bool | int | float | str | None = None
    name: str = ""
    fields: tuple[str, ...] = ()
