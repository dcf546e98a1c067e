"""Hash-consing: structurally equal immutable nodes are one object, so ``is`` compares them."""

from typing import Any
from weakref import WeakValueDictionary


class Interned(type):
    """Metaclass that returns the existing instance when the same fields are given again.

    Instances are immutable; arguments are positional and hashable. Equality and hash are by
    identity, so nothing may be *ordered* by them.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._instances: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()

    def __call__(cls, *fields: Any) -> Any:
        key = tuple(map(_identity, fields))
        found = cls._instances.get(key)
        if found is None:
            found = super().__call__(*fields)
            cls._instances[key] = found
        return found


def _identity(field: Any) -> Any:
    """The key of a field: numbers by type and text, since 0.0 == -0.0, nan != nan and True == 1."""
    return (type(field), repr(field)) if isinstance(field, (float, int)) else field
