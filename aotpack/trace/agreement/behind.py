"""Conditions on sizes that a model asks for only where another size is 1.

torch.export takes each dynamic size for 2 or more: of ``x.shape[0] == 1 and x.shape[1] > 512`` it
never sees the second condition. So where a condition has another answer for sizes of 1, the model
runs once more on symbolic sizes, with these as 1, and what it asks for then is known too.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree

from aotpack.ir.symbolic.integers import Int, Var
from aotpack.trace.capture import quiet_inference, replaced_functions
from aotpack.trace.diagnostics.branches import Branch, Branches
from aotpack.trace.eager import Call, in_program_order

Values: TypeAlias = Mapping[str, int]  # of sizes, by name
Resized: TypeAlias = Callable[[Values], Call]
_SCANNED = 1024  # sizes of one range
_NEAR = 3  # small sizes of each range
_MOST_COMBINED = 512
_MOST_RUNS = 16


@dataclass(frozen=True, slots=True)
class _Asked:
    """A condition that was asked for where the sizes ``ones`` were 1; ``sizes`` are by symbol."""

    branch: Branch
    ones: frozenset[str]
    sizes: Mapping[Any, Int]

    def holds(self, values: Values) -> bool:
        symbols = self.branch.condition.free_symbols
        if not symbols <= {*self.sizes}:
            return True
        return self.branch.holds({one: self.sizes[one].evaluate(values) for one in symbols})

    def names(self) -> set[str]:
        """The sizes that decide the condition."""
        found = [self.sizes[one] for one in self.branch.condition.free_symbols if one in self.sizes]
        return set[str]().union(*map(_names, found))


def _names(size: Int) -> set[str]:
    return {leaf.name for leaf in size.leaves() if isinstance(leaf, Var)}


def hidden_cases(
    call: Call,
    branches: Iterable[Branch],
    symbols: Mapping[str, Any],
    example: Values,
    resized: Resized,
) -> Iterator[Values]:
    """Sizes at which conditions that only sizes of 1 open have another answer than beside them.

    ``branches`` are known with all sizes of 2 or more, ``symbols`` are torch's by the name of a
    size, and ``resized`` gives the call for sizes.
    """
    sizes = call.signature.sizes
    by_symbol = {symbols[size.name]: Int.of(size) for size in sizes}
    known = [_Asked(one, frozenset(), by_symbol) for one in branches]
    names = [size.name for size in sizes if size.low == 1]
    some = [itertools.combinations(names, count) for count in range(1, len(sizes))]
    runs = 0
    for ones in (frozenset(names) for names in itertools.chain.from_iterable(some)):
        opened = [one for one in known if one.ones < ones and _opens(one, ones, sizes, example)]
        if not opened or runs == _MOST_RUNS:
            continue
        runs += 1
        found = _asked(resized({**example, **dict.fromkeys(ones, 1)}), ones)
        known += found
        for one in found:
            yield from _changes(one, sizes, example)


def _opens(one: _Asked, ones: frozenset[str], sizes: Sequence[Var], example: Values) -> bool:
    """Whether an answer is another where exactly these sizes are 1, and not where fewer are."""
    new = ones - one.ones
    if not new <= one.names():
        return False
    fewer = (
        one.ones.union(some)
        for count in range(1, len(new))
        for some in itertools.combinations(sorted(new), count)
    )
    return _departs(one, ones, sizes, example) and not any(
        _departs(one, some, sizes, example) for some in fewer
    )


def _departs(one: _Asked, ones: Collection[str], sizes: Sequence[Var], example: Values) -> bool:
    return not all(map(one.holds, _combined(one, ones, sizes, example)))


def _changes(one: _Asked, sizes: Sequence[Var], example: Values) -> Iterator[Values]:
    """The first and last sizes at which an answer differs, along each range and of small ones."""
    fixed = dict.fromkeys(one.ones, 1)
    free = [size for size in sizes if size.name in one.names() - one.ones]
    lines: list[list[Values]] = [
        [
            {**example, **fixed, size.name: number}
            for number in range(size.low, min(size.high + 1, size.low + _SCANNED))
        ]
        for size in free
    ]
    for line in [*lines, [*_combined(one, one.ones, sizes, example)]]:
        differing = [values for values in line if not one.holds(values)]
        yield from differing[:1]
        yield from differing[1:][-1:]


def _combined(
    one: _Asked, ones: Collection[str], sizes: Sequence[Var], example: Values
) -> Iterator[Values]:
    """Small sizes beside each other, and the example's; exactly ``ones`` are 1."""
    read = one.names()
    tried = []
    for size in sizes:
        if size.name in ones:
            tried.append([1])
        elif size.name in read:
            low = max(2, size.low)
            near = (*range(low, low + _NEAR), example[size.name], min(size.high, _SCANNED))
            tried.append(sorted({number for number in near if low <= number <= size.high}))
        else:
            tried.append([example[size.name]])
    for numbers in itertools.islice(itertools.product(*tried), _MOST_COMBINED):
        yield {size.name: number for size, number in zip(sizes, numbers, strict=True)}


def _asked(call: Call, ones: frozenset[str]) -> list[_Asked]:
    """The conditions that the model asks for on symbolic sizes, but for those that are 1.

    An error ends the run: what it would ask for later belongs to no admitted call, or torch.export
    refuses the model for the same.
    """
    environment = ShapeEnv(
        duck_shape=False, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True
    )
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    specs, leaves = iter(call.signature.inputs), list[Any]()
    by_symbol: dict[Any, Int] = {}
    for leaf in in_program_order(call.program, *call.example):
        if isinstance(leaf, torch.Tensor):
            sizes = next(specs).shape[: leaf.dim()]
            kinds = [
                DimDynamic.DYNAMIC if _names(size) - ones else DimDynamic.STATIC for size in sizes
            ]
            leaf = mode.from_tensor(
                leaf, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds)
            )
            for size, theirs in zip(sizes, leaf.shape, strict=True):
                if isinstance(theirs, torch.SymInt):
                    by_symbol[theirs.node.expr] = size
        leaves.append(leaf)
    args, kwargs = pytree.tree_unflatten(leaves, call.program.call_spec.in_spec)
    with quiet_inference(), replaced_functions(), Branches() as branches, suppress(Exception), mode:
        call.module(*args, **kwargs)
    return [_Asked(branch, ones, by_symbol) for branch in branches.found.values()]
