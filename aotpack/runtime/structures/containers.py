"""Classes of results with named parts, made from their description in the manifest.

They stand for the classes that the model returns, which would need torch or transformers: named
tuples, dataclasses, and ordered dicts whose keys are attributes (the outputs of transformers). A
class is made once for each description, so that the results of two loads have one type.
"""

import keyword
from collections import namedtuple
from collections.abc import Iterable, Mapping
from dataclasses import make_dataclass
from functools import cache
from types import GenericAlias
from typing import Any, ClassVar

from ..errors import did_you_mean

NAMED, RECORD, OBJECT = KINDS = ("named", "record", "object")
_TORCH = "torch.return_types."


class _Described:
    """An instance is pickled as the description of its class, and its content."""

    __slots__ = ()
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)  # stubs are generic in arrays
    aotpack_description: ClassVar[tuple[str, str, tuple[str, ...]]]

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (*self.aotpack_description, self.aotpack_content())

    def aotpack_content(self) -> Any:
        raise NotImplementedError


class _Named(_Described):
    __slots__ = ()

    def aotpack_content(self) -> tuple[Any, ...]:
        return tuple(self)  # type: ignore[arg-type]


class _TorchNamed(_Named):
    __slots__ = ()

    def __repr__(self) -> str:
        name, fields = self.aotpack_description[1:]
        pairs = zip(fields, self.aotpack_content(), strict=True)
        parts = ",\n".join(f"{field}={part!r}" for field, part in pairs)
        return f"{name}(\n{parts})"


class _Record(_Described):
    def aotpack_content(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field) for field in self.aotpack_description[2])


class _Object(_Described, dict[str, Any]):
    """A dict whose keys are attributes too; an integer or a slice picks by position.

    A field without a value is None as an attribute, and is no key.
    """

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return dict.__getitem__(self, key)
        return _Object.to_tuple(self)[key]

    def __getattr__(self, name: str) -> Any:
        fields = self.aotpack_description[2]
        hint = did_you_mean(name, fields) or f"; it has {', '.join(fields)}"
        raise AttributeError(f"{type(self).__name__} has no {name!r}{hint}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.aotpack_description[2]:
            _Object.__getattr__(self, name)
        self[name] = value

    def __repr__(self) -> str:
        parts = (f"{field}={dict.get(self, field)!r}" for field in self.aotpack_description[2])
        return f"{type(self).__name__}({', '.join(parts)})"

    def aotpack_content(self) -> dict[str, Any]:
        return dict(dict.items(self))

    def to_tuple(self) -> tuple[Any, ...]:
        """The values."""
        return tuple(dict.values(self))


@cache
def container(kind: str, name: str, fields: tuple[str, ...]) -> type[Any]:
    """The class of ``kind`` with these fields; ``name`` is that of the model's class."""
    short = name.rpartition(".")[2]
    own = {"aotpack_description": (kind, name, fields), "__module__": __name__}
    if kind == RECORD:
        return make_dataclass(short, fields, bases=(_Record,), namespace=own)
    if kind == OBJECT:
        attributes = {field: _attribute(field) for field in fields if is_plain(field)}
        return type(short, (_Object,), {**own, **attributes})
    mixin = _TorchNamed if name.startswith(_TORCH) else _Named
    plain = namedtuple(short, fields, rename=True)  # type: ignore[misc]
    return type(short, (mixin, plain), {**own, "__slots__": ()})


def restore(
    kind: str, name: str, fields: tuple[str, ...], content: Iterable[Any] | Mapping[str, Any]
) -> Any:
    """The container that was pickled."""
    made = container(kind, name, fields)
    if kind == OBJECT:
        return made(content)
    return made._make(content) if kind == NAMED else made(*content)


def is_plain(name: str) -> bool:
    """True for an identifier that hides nothing of Python's or of this module."""
    hides = name.startswith(("__", "aotpack_"))
    return name.isidentifier() and not keyword.iskeyword(name) and not hides


def _attribute(field: str) -> property:
    return property(lambda self: dict.get(self, field))
