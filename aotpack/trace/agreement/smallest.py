"""The model and its exported program must agree for other sizes too, above all for those of 1.

torch.export takes every dynamic size for 2 or more, so ``if tokens.shape[1] == 1`` is a plain False
to it and leaves no guard. Of ``type(n) is int`` and ``str(n)`` it sees nothing. Both run once more
on elements of the example inputs.
"""

import itertools
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.stages import Signature
from aotpack.trace.agreement.attributes import Attributes, storage_of, version_of
from aotpack.trace.agreement.behind import Asked, hidden_cases
from aotpack.trace.agreement.exported import AnotherFunction, check_export
from aotpack.trace.agreement.turned import (
    FEW,
    broken,
    costs_little,
    raised_behind,
    share_at,
    turned_cases,
)
from aotpack.trace.agreement.values import difference
from aotpack.trace.agreement.writes import UncountedViews
from aotpack.trace.diagnostics.branches import Branch, Unseen, squeezes
from aotpack.trace.diagnostics.complaint import users_line
from aotpack.trace.eager import Call, in_program_order
from aotpack.trace.operators.admitted import at_ones, ones, with_ones
from aotpack.trace.operators.named_sizes import asks_unseen, named_sizes
from aotpack.trace.operators.random.seeds import Example

Case: TypeAlias = dict[str, int]
Comparison: TypeAlias = Callable[[Call, Sequence[torch.Tensor], str], None]
Change: TypeAlias = Callable[[torch.Tensor, Sequence[int]], torch.Tensor]
_MOST_CASES, _MOST_HIDDEN = 512, 128
_FEW = 64  # elements, of which three draws are tried
_MOST_NAMED = 64
_SPREAD = 32  # sizes tried for each that something unseen was asked of
_ADVICE = (
    "torch.export takes each dynamic size for 2 or more, and decides conditions on sizes with it. "
    "Give the dimension a range from 2 on, or change what the model does for a size of 1"
)
_ADVICE_ON_OTHERS = (
    "The program is right for the example's sizes. Accepted is a model whose Python asks for the "
    "value of a dynamic size alone: look for str(n), f-strings, type(n), is_exporting() and values "
    "kept from call to call, or leave the dimension out of dynamic_shapes"
)
_ADVICE_ON_VIEWS = (
    "reshape, flatten and contiguous give a view where they need no copy, as beside a size of 1, "
    "and what is written to it is written to the tensor itself. Accepted is a model that writes to "
    "a tensor for all admitted sizes, or for none: write to y.clone(), or give the dimension a "
    "range without these sizes"
)


def check_smallest(
    call: Call, branches: Iterable[Branch], compare: Comparison, share: float
) -> None:
    """Refuse a program that departs from the model for other sizes than the example's.

    A run on the example takes the ``share`` of what one at large sizes may. ``compare`` takes a
    call, its results and where it is, to compare further programs.

    Sizes are 1 one by one and together, and those at which one of the ``branches`` would be another
    are tried too, those at which a computed size is 1 that torch asked for, and large ones. Sizes
    at which eager refuses the inputs show nothing, unless the model raises behind such a condition.
    """
    signature = call.signature
    tensors = [x for x in _leaves(call) if isinstance(x, torch.Tensor)]
    example = _sizes_of(signature, tensors)
    if any(size.name not in example for size in signature.sizes):
        return
    before, known = Attributes({"": call.module}), tuple(branches)
    try:
        symbols = {name: str(symbol) for name, symbol in _symbols(call).items()}
        computed = at_ones(signature.name, call.program, symbols, signature.sizes, example)
        enlarged = _enlarged(call, example, share)
        departing = _departing(call, known, example, enlarged, share)
        others = [*_others(signature.sizes, known, example, enlarged)]
        others += _named(call, known, example, share)
        tried = (*ones(signature.sizes, example), *departing, *computed, *others)
        for values in tried:
            repeated = _resized(call, values, _repeated)
            count = sum(x.numel() for x in _leaves(repeated) if isinstance(x, torch.Tensor))
            draws = [
                _resized(call, values, _drawn(seed)) for seed in range(3 if count <= _FEW else 1)
            ]
            ran = [_check(draw, values, known, compare) for draw in draws]
            if not any(ran):
                _check(repeated, values, known, compare)
    finally:
        before.restore()


def _departing(
    call: Call,
    branches: Iterable[Branch],
    example: Mapping[str, int],
    enlarged: Callable[[Mapping[str, int]], Case],
    share: float,
) -> list[Mapping[str, int]]:
    """Sizes at which a condition that the model asked for has another answer.

    Further conditions may stand behind it, so other sizes are small, and then large.
    """
    symbols = _symbols(call)
    if not {*example} <= {*symbols}:
        return []
    names = {symbol: name for name, symbol in symbols.items()}
    small = itertools.islice(with_ones(call.signature.sizes, example), _MOST_CASES)
    cases = [{symbols[name]: value for name, value in case.items()} for case in small]
    small_ones = [{names[s]: n for s, n in case.items()} for case in broken(branches, cases)]
    found: list[Mapping[str, int]] = [*small_ones, *map(enlarged, small_ones)]
    turned = [*turned_cases(call, branches, symbols, example, share)]

    def resized(values: Mapping[str, int]) -> Call:
        return _resized(call, values, _repeated)

    by_symbol = {str(symbols[size.name]): Int.of(size) for size in call.signature.sizes}
    asked = [Asked.of(one, by_symbol) for one in (*branches, *squeezes(call.program))]
    behind = hidden_cases(call, asked, example, enlarged, resized, turned)
    hidden = itertools.islice(behind, _MOST_HIDDEN)
    return [*{tuple(case.items()): case for case in (*found, *turned, *hidden)}.values()]


def _others(
    sizes: Iterable[Var],
    branches: Iterable[Branch],
    example: Mapping[str, int],
    enlarged: Callable[[Mapping[str, int]], Case],
) -> Iterator[Case]:
    """Sizes whose answers to questions that leave no condition may be others."""
    if example and (large := enlarged(example)) != example:
        yield large
    if any(isinstance(one.asked, Unseen) for one in branches):
        for size in sizes:
            for number in range(size.low, min(size.high + 1, size.low + _SPREAD)):
                yield {**example, size.name: number}


def _named(
    call: Call, branches: Iterable[Branch], example: Mapping[str, int], share: float
) -> Iterator[Case]:
    """Cheap sizes that the user's code names, if it asks what leaves no condition."""
    if not any(isinstance(one.asked, Unseen) for one in branches) and not asks_unseen(call.module):
        return
    found = [
        {**example, size.name: number}
        for number in named_sizes(call.module)
        for size in call.signature.sizes
        if size.low <= number <= size.high and number != example[size.name]
    ]
    cost = 0.0
    for case in found[:_MOST_NAMED]:
        cost += max(share, share_at(case, example, share))
        if cost <= 1:
            yield case


def _enlarged(
    call: Call, example: Mapping[str, int], share: float
) -> Callable[[Mapping[str, int]], Case]:
    """Gives the largest sizes beside those of 1 for which a run costs little, by estimate."""

    def enlarged(values: Mapping[str, int]) -> Case:
        most = max(size.high for size in call.signature.sizes)
        while True:
            found = {
                size.name: 1
                if values[size.name] == 1
                else min(size.high, max(example[size.name], most))
                for size in call.signature.sizes
            }
            if most <= FEW or costs_little(found, example, share):
                return found
            most //= 2

    return enlarged


def _symbols(call: Call) -> dict[str, Any]:
    """torch's symbol of each size, by name."""
    placeholders = {n.name: n for n in call.program.graph.find_nodes(op="placeholder")}
    kinds = call.program.graph_signature.input_specs
    given = [placeholders[k.arg.name] for k in kinds if k.kind is InputKind.USER_INPUT]
    values = [x for x in (n.meta.get("val") for n in given) if isinstance(x, torch.Tensor)]
    found: dict[str, Any] = {}
    for spec, value in zip(call.signature.inputs, values, strict=True):
        for size, theirs in zip(spec.shape, value.shape, strict=False):
            ours = [one for one in size.leaves() if isinstance(one, Var)]
            free: list[Any] = (
                [*theirs.node.expr.free_symbols] if isinstance(theirs, torch.SymInt) else []
            )
            if len(ours) == len(free) == 1:
                found[ours[0].name] = free[0]
    return found


def _check(
    call: Call, values: Mapping[str, int], branches: Sequence[Branch], compare: Comparison
) -> bool:
    """Refuse a departure; False where eager refuses the inputs."""
    case = ", ".join(f"{name}={value}" for name, value in values.items())
    advice = _ADVICE if 1 in values.values() else _ADVICE_ON_OTHERS
    written: list[str] = []
    try:
        with UncountedViews():
            eager = call.run(lambda tensors: _watched(tensors, call.signature, written))
    except TraceError as error:
        cause, symbols = error.__cause__, _symbols(call)
        sizes = {symbols[name]: value for name, value in values.items() if name in symbols}
        if cause is None or not raised_behind(cause, branches, sizes):
            return False
        text = "\n  at ".join([f"{type(cause).__name__}: {cause}", *users_line(cause)])
        raise TraceError(
            f"exporting {call.signature.name}: the model raises for an admitted size, "
            f"where {case}, {text}\n{advice}."
        ) from error
    if written:
        raise AnotherFunction(
            f"exporting {call.signature.name}: where {case}, the model changes "
            f"{' and '.join(written)} in place, and the exported program does not.\n"
            f"{_ADVICE_ON_VIEWS}."
        )
    try:
        compare(call, _exported(call, eager, case, advice), f"where {case},")
    except AnotherFunction:
        with _without_onednn():
            compare(call, _exported(call, call.run(), case, advice), f"where {case},")
    return True


@contextmanager
def _watched(
    tensors: Mapping[str, torch.Tensor], signature: Signature, written: list[str]
) -> Iterator[None]:
    """Names go to ``written`` of tensors that the block changes and the program leaves."""
    changed = {storage_of(tensors[name]) for name in signature.updates}
    left = {name: x for name, x in tensors.items() if storage_of(x) not in changed}
    versions = {name: version_of(x) for name, x in left.items()}
    given = {spec.name for spec in signature.inputs} & {*left}
    before = {name: left[name].clone() for name in given}
    yield
    for name, x in left.items():
        is_written = version_of(x) != versions[name]
        if is_written or (name in before and difference(before[name], x)):
            written.append(name)


def _exported(
    call: Call, eager: Sequence[torch.Tensor], case: str, advice: str
) -> Sequence[torch.Tensor]:
    """The results of what was exported; refused where it asserts a size of 2 or more."""
    try:
        return check_export(call, eager, f"where {case},", advice)
    except AnotherFunction:
        raise
    except TraceError as error:
        raise TraceError(f"{error}\n{advice}.") from error


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Its convolutions in bfloat16 err for one and two columns, on some processors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


def _leaves(call: Call) -> list[Any]:
    return in_program_order(call.program, *call.example)


def _sizes_of(signature: Signature, tensors: Sequence[torch.Tensor]) -> dict[str, int]:
    """The sizes of the example by name, as far as one dimension tells them."""
    found: dict[str, int] = {}
    for spec, tensor in zip(signature.inputs, tensors, strict=True):
        for size, number in zip(spec.shape, tensor.shape, strict=False):
            names = [one for one in size.leaves() if isinstance(one, Var)]
            solved = _solved(size, names[0], number) if len(names) == 1 else None
            if solved is not None:
                found.setdefault(names[0].name, solved)
    return found


def _solved(size: Int, unknown: Var, number: int) -> int | None:
    """The value for which a dimension has its size, which grows with it; None if there is none."""
    values = range(unknown.low, unknown.high + 1)
    place = bisect_left(values, number, key=lambda value: size.evaluate({unknown.name: value}))
    found = values[place] if place < len(values) else unknown.high
    return found if size.evaluate({unknown.name: found}) == number else None


def _resized(call: Call, values: Mapping[str, int], change: Change) -> Call:
    """The call on changed inputs, of other sizes."""
    specs = iter(call.signature.inputs)
    leaves: list[Any] = []
    for leaf in _leaves(call):
        if isinstance(leaf, torch.Tensor):
            sizes = next(specs).shape[: leaf.dim()]
            leaf = change(leaf, [int(size.evaluate(values)) for size in sizes])
        leaves.append(leaf)
    return Call(call.module, call.program, _example(call, leaves), call.signature)


def _repeated(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Its elements, repeated or cut."""
    for dim, (size, known) in enumerate(zip(shape, x.shape, strict=True)):
        if size != known:
            x = x.index_select(dim, torch.arange(size) % known)
    return x


def _drawn(seed: int) -> Change:
    """Gives tensors of other sizes with elements in another order: the first are often alike.

    Of equal numbers, as in torch.zeros, others: they tell functions apart.
    """

    def drawn(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        draw = np.random.default_rng(seed)
        if [*x.shape] == [*shape] or x.numel() == 0:
            return _varied(x, draw)
        if x.is_complex() or x.itemsize < 2 or x.numel() < 2 or _differ(x):
            places = torch.from_numpy(draw.integers(0, x.numel(), tuple(shape)))
            return x.reshape(-1)[places]
        return _varied(_repeated(x, shape), draw)

    return drawn


def _differ(x: torch.Tensor) -> bool:
    return bool((x != x.reshape(-1)[0]).any())


def _varied(x: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
    if x.is_complex() or x.itemsize < 2 or x.numel() < 2 or _differ(x):
        return x
    if x.is_floating_point():
        return torch.from_numpy(draw.standard_normal(tuple(x.shape))).to(x.dtype)
    most = max(1, min(int(x.max()), 2**31))
    return torch.from_numpy(draw.integers(0, most + 1, tuple(x.shape))).to(x.dtype)


def _example(call: Call, leaves: Sequence[Any]) -> Example:
    """The leaves in the order of the program's placeholders as arguments."""
    given: Example = pytree.tree_unflatten(list(leaves), call.program.call_spec.in_spec)
    return given
