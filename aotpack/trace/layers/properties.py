"""An attribute of one module that is computed where it is read: the module gets a class for it.

The class is derived from the module's own, and made without what classes do when one is derived:
neither their ``__init_subclass__`` nor their metaclass is called.
"""

from collections.abc import Callable
from typing import Any

from torch import nn


class _Quiet:
    """Stands in front of a class whose ``__init_subclass__`` is not called.

    Without ``__slots__``: its instances have the layout of modules.
    """

    def __init_subclass__(cls) -> None:
        """Nothing: the class is for one module, and no other kind of module."""


def with_property(module: nn.Module, name: str, read: Callable[[nn.Module], Any]) -> None:
    """Give the module an attribute that ``read`` computes."""
    own = type(module)
    parts = {name: property(read), "__module__": own.__module__}
    bases = (own,) if issubclass(own, _Quiet) else (_Quiet, own)
    made = type.__new__(type(own), own.__name__, bases, parts)
    object.__setattr__(module, "__class__", made)
