"""The weights that calls of a model write to: fixed codes cannot stand for them.

Calls of the float model on the example inputs tell. They are made with sizes alone, and with values
where a model needs these.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from aotpack.trace.agreement.attributes import Attributes, storage_of
from aotpack.trace.agreement.surroundings import without_caches
from aotpack.trace.capture import quiet_inference
from aotpack.trace.host.copies import PLAIN
from aotpack.trace.host.devices import OnHost
from aotpack.trace.methods import root_of
from aotpack.trace.operators.modes import WithoutStreams
from aotpack.trace.operators.random import Example

Calls = Mapping[str, tuple[nn.Module, Example]]


def written_weights(
    calls: Calls, weights: Sequence[torch.Tensor], *, has_values: bool
) -> frozenset[int]:
    """The ``id`` of each of the weights that a call writes to, or puts another in the place of."""
    found: set[int] = set()
    for module, example in calls.values():
        with suppress(_NeedsValues):
            found |= _of_call(module, example, weights, _sizes_alone)
            continue
        if has_values:
            with suppress(_NeedsValues):  # it fails in eager: the trace says how
                found |= _of_call(module, example, weights, nullcontext)
    return frozenset(found)


class _NeedsValues(Exception):
    """A call that fails."""


def _of_call(
    module: nn.Module,
    example: Example,
    weights: Sequence[torch.Tensor],
    mode: Callable[[], AbstractContextManager[Any]],
) -> set[int]:
    before = Attributes({"": module})
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, example)
    try:
        with ExitStack() as stack:
            for one in quiet_inference(), without_caches([root_of(module)]), _same_random():
                stack.enter_context(one)
            sizes = stack.enter_context(mode())
            stack.enter_context(WithoutStreams())
            stack.enter_context(OnHost())
            writes = _Writes(before.storages(), sizes)
            stack.callback(writes.restore)
            places = [{storage_of(one)} for one in weights]
            stands = [] if sizes is None else [sizes.from_tensor(one) for one in weights]
            for place, stand in zip(places, stands, strict=False):
                place.add(storage_of(stand))
            with writes:
                module(*args, **kwargs)
            replaced = {id(one.before) for one in before.changes()}
            moved = {id(one.after) for one in before.changes() if one.kind == "memory"}
    except (Exception, SystemExit) as error:
        raise _NeedsValues from error
    finally:
        before.restore()
    return {
        id(one)
        for one, place in zip(weights, places, strict=True)
        if id(one) in replaced | moved or place & writes.storages
    }


@contextmanager
def _sizes_alone() -> Iterator[FakeTensorMode]:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        yield mode


@contextmanager
def _same_random() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


class _Writes(TorchDispatchMode):
    """Inside the block, memories that operators write to are noted; those ``known`` are kept."""

    supports_higher_order_operators = True

    def __init__(self, known: set[int], sizes: FakeTensorMode | None) -> None:
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
