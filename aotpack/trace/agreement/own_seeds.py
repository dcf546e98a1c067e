"""A model that seeds the generator it draws from: its numbers are the same in each call.

A package draws from the seed of a call, and would give others.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.trace.agreement.attributes import Attributes
from aotpack.trace.agreement.values import difference
from aotpack.trace.capture import quiet_inference
from aotpack.trace.changes import kept
from aotpack.trace.host.devices import OnHost
from aotpack.trace.operators.random.seeds import SEED, Example

_SEEDS = range(1, 17)  # of a coin all are equal once in 32,768 builds


def own_seed(module: nn.Module, example: Example) -> str:
    """How a model that draws gives the same numbers in each call, in words; "" if it does not."""
    found = ""

    def begin(seed: int) -> Example:
        torch.manual_seed(seed)
        return example

    def note(seed: int) -> None:
        nonlocal found
        if torch.initial_seed() != seed:
            found = "it seeds torch's generator"

    is_same = _is_same(module, begin, note)
    return found or ("it draws the same numbers in each call" if is_same else "")


def check_own_seed(name: str, module: nn.Module, example: Example, how: str) -> None:
    """Refuse a model with its own seed, if its results follow the seed that a package takes.

    A draw that a package does not have fails, and the export says why.
    """

    def begin(seed: int) -> Example:
        args, kwargs = example
        return args, {**kwargs, SEED: torch.tensor(seed)}

    if how and _is_same(module, begin, lambda _: None) is False:
        raise TraceError(
            f"tracing {name}: forward draws random numbers, and {how}; a package draws others, "
            f"from its input {SEED!r}. Draw numbers that stay in __init__ and keep them with "
            "register_buffer, or take the line that seeds out of forward."
        )


def _is_same(
    module: nn.Module, begin: Callable[[int], Example], end: Callable[[int], None]
) -> bool | None:
    """Whether calls with other seeds give the same; None where the first one fails."""
    before, first = Attributes({"": module}), list[torch.Tensor]()
    try:
        with (
            quiet_inference(),
            OnHost(),
            torch.random.fork_rng(devices=[]),
            kept(module.buffers()),
            before.values_kept(module),
        ):
            for seed in _SEEDS:
                args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, begin(seed))
                found = _tensors(module(*args, **kwargs))
                end(seed)
                first = first or found
                if len(first) != len(found) or any(map(difference, first, found)):
                    return False
    except (Exception, SystemExit):
        return False if first else None
    finally:
        before.restore()
    return True


def _tensors(result: Any) -> list[torch.Tensor]:
    return [x.clone() for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
