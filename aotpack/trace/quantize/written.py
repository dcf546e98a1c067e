"""The weights that calls of a model write to: fixed codes cannot stand for them.

Calls of the float model on the example inputs tell. They are made with sizes alone, and with values
where a model needs these.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from aotpack.trace.agreement.attributes import Attributes, storage_of
from aotpack.trace.agreement.surroundings import without_caches
from aotpack.trace.agreement.writes import Writes
from aotpack.trace.capture import quiet_inference
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
            for one in quiet_inference(), without_caches([root_of(module)]):
                stack.enter_context(one)
            stack.enter_context(torch.random.fork_rng(devices=[]))
            sizes = stack.enter_context(mode())
            stack.enter_context(WithoutStreams())
            stack.enter_context(OnHost())
            writes = Writes(before.storages(), sizes)
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
