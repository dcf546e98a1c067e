"""What calls of a model do: the tensors that they write to, and the operators that they call.

Before a part of a model is replaced by another form (weights by codes, numbers by tensors), and
after: a call must call the same operators. Calls are made with sizes alone, and with values where a
model needs these.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from aotpack.trace.agreement.attributes import Attributes, storage_of
from aotpack.trace.agreement.surroundings import without_caches
from aotpack.trace.agreement.writes import Writes
from aotpack.trace.capture import quiet_inference
from aotpack.trace.host.devices import OnHost
from aotpack.trace.methods import root_of
from aotpack.trace.operators.modes import WithoutStreams
from aotpack.trace.operators.random.seeds import Example

Calls = Mapping[str, tuple[nn.Module, Example]]

Step = tuple[object, ...]
"""An operator with its numbers and the types and sizes of its tensors, and which are weights."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a call does.

    The ``id`` of each weight that it writes to or replaces, and the operators that it calls.
    """

    written: frozenset[int]
    steps: tuple[Step, ...]
    has_values: bool


class CallFails(Exception):
    """A call of the model raises an exception, its cause."""


def seen_calls(
    calls: Calls, weights: Sequence[torch.Tensor] = (), *, has_values: bool
) -> dict[str, Seen]:
    """What each call does; none for one that fails in eager: the trace says how."""
    found: dict[str, Seen] = {}
    for name, (module, example) in calls.items():
        for own in (False, True) if has_values else (False,):
            try:
                found[name] = seen_call(module, example, weights, has_values=own)
            except CallFails:
                continue
            break
    return found


def seen_call(
    module: nn.Module,
    example: Example,
    weights: Sequence[torch.Tensor] = (),
    numbers: Iterable[torch.Tensor] = (),
    *,
    has_values: bool,
) -> Seen:
    """What one call does, with values or with sizes alone. Tensors may stand for ``numbers``."""
    before = Attributes({"": module})
    told: dict[int, int | float] = {storage_of(one): n for n, one in enumerate(weights)}
    told |= {storage_of(one): float(one) for one in numbers}
    try:
        steps, stands = _steps(module, example, before, told, weights, has_values=has_values)
        changes = before.changes()
    except (Exception, SystemExit) as error:
        raise CallFails from error
    finally:
        before.restore()
    replaced = {id(one.before) for one in changes}
    moved = {id(one.after) for one in changes if one.kind == "memory"}
    written = {
        id(one)
        for one, stand in zip(weights, stands, strict=True)
        if id(one) in replaced | moved or {storage_of(one), stand} & steps.storages
    }
    return Seen(frozenset(written), tuple(steps.steps), has_values)


def _steps(
    module: nn.Module,
    example: Example,
    before: Attributes,
    told: Mapping[int, int | float],
    weights: Sequence[torch.Tensor],
    *,
    has_values: bool,
) -> tuple["_Steps", list[int]]:
    """A call, and the memories that stand for those of weights in it."""
    mode: Callable[[], AbstractContextManager[Any]] = nullcontext if has_values else _sizes_alone
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, example)
    with ExitStack() as stack:
        for one in quiet_inference(), without_caches([root_of(module)]):
            stack.enter_context(one)
        stack.enter_context(torch.random.fork_rng(devices=[]))
        sizes = stack.enter_context(mode())
        stack.enter_context(WithoutStreams())
        stack.enter_context(OnHost())
        steps = _Steps(before.storages(), sizes, told)
        stack.callback(steps.restore)
        stands = list(weights) if sizes is None else [sizes.from_tensor(one) for one in weights]
        with steps:
            module(*args, **kwargs)
        return steps, [storage_of(one) for one in stands]


class _Steps(Writes):  # type: ignore[no-untyped-call]
    """Notes the operators too."""

    def __init__(
        self, known: set[int], sizes: FakeTensorMode | None, told: Mapping[int, int | float]
    ) -> None:
        super().__init__(known, sizes)
        self.steps: list[Step] = []
        self._told = told  # a weight's place among them, a number's value

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        is_operator = isinstance(func, OpOverload)  # branches and loops have their parts as graphs
        leaves = pytree.tree_leaves((args, kwargs or {})) if is_operator else ()
        shown = map(self._shown, leaves)  # a number is behind a tensor in a product, its tensor not
        self.steps.append((str(func), *(sorted(shown, key=repr) if func in _COMMUTE else shown)))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _shown(self, leaf: Any) -> object:
        told = self._told.get(storage_of(leaf)) if isinstance(leaf, torch.Tensor) else leaf
        if isinstance(told, float):
            return f"{told:.6g}"
        if isinstance(leaf, torch.Tensor):
            return str(leaf.dtype), *map(str, leaf.shape), told
        if isinstance(leaf, int):
            return f"{float(leaf):.6g}"
        return repr(leaf) if isinstance(leaf, _PLAIN) else type(leaf)


_COMMUTE = (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor)
_PLAIN = (complex, str, type(None), torch.dtype)


@contextmanager
def _sizes_alone() -> Iterator[FakeTensorMode]:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        yield mode


def departure(before: Sequence[Step], after: Sequence[Step]) -> str:
    """The first operator that is another one, in words; "" if there is none."""
    for one, other in zip_longest(before, after, fillvalue=("nothing",)):
        if one != other:
            same = " of other tensors or numbers" if one[0] == other[0] else ""
            return f"{other[0]}{same} in place of {one[0]}"
    return ""
