"""The memories that operators write to, while a model is called."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from aotpack.trace.agreement.attributes import storage_of
from aotpack.trace.diagnostics.lines import VIEWS_IN_PLACE
from aotpack.trace.host.copies import PLAIN

_ATEN = torch.ops.aten
_VIEWS = {getattr(_ATEN, name) for name in VIEWS_IN_PLACE.values()} | {_ATEN.detach_}


class UncountedViews(TorchFunctionMode):
    """Inside the block, torch does not count views in place as writes to the memory."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        own: Any = args[0] if func in VIEWS_IN_PLACE else None
        is_counted = type(own) in PLAIN and not own.is_inference()
        with _unsafe_preserve_version_counter(own) if is_counted else nullcontext():
            return func(*args, **(kwargs or {}))


class Writes(TorchDispatchMode):
    """Inside the block, memories that operators write to are noted; those ``known`` are kept.

    With ``sizes`` operators have sizes alone, and write nothing.
    """

    supports_higher_order_operators = True

    def __init__(self, known: set[int], sizes: FakeTensorMode | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages: set[int] = set()
        self._known, self._sizes = known, sizes
        self._before: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for tensor in _written(func, args, kwargs or {}):
            self._note(tensor)
        given = (args, kwargs or {})
        if self._sizes is not None:  # which would run operators of values alone on these
            given = pytree.tree_map_only(_is_plain, self._sizes.from_tensor, given)
        args, kwargs = given
        return func(*args, **kwargs)

    def _note(self, tensor: torch.Tensor) -> None:
        place = storage_of(tensor)
        if self._sizes is None and place in self._known - self.storages:
            storage = tensor.untyped_storage()
            self._before.append((storage, storage.clone()))  # type: ignore[no-untyped-call]
        self.storages.add(place)

    def restore(self) -> None:
        """Put back what was written to tensors that were there before."""
        for storage, before in self._before:
            storage.copy_(before)


def _is_plain(value: Any) -> bool:
    return type(value) in PLAIN


def _written(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterable[torch.Tensor]:
    """The tensors that an operator writes to, as its schema tells."""
    if not isinstance(func, OpOverload) or not func._schema.is_mutable:
        return []
    if func.overloadpacket in _VIEWS:
        return []
    given = {
        **dict(zip([one.name for one in func._schema.arguments], args, strict=False)),
        **kwargs,
    }
    leaves = [
        leaf
        for one in func._schema.arguments
        if one.alias_info is not None and one.alias_info.is_write
        for leaf in pytree.tree_leaves(given.get(one.name))
    ]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
