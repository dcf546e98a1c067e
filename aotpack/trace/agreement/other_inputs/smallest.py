"""The model and its exported program must agree for other sizes too, above all for those of 1.

torch.export takes every dynamic size for 2 or more, so ``if tokens.shape[1] == 1`` is a plain False
to it and leaves no guard. Of ``type(n) is int`` and ``str(n)`` it sees nothing. Both run once more
on elements of the example inputs.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.export.graph_signature import InputKind

from aotpack.ir.symbolic.integers import Int, Var
from aotpack.trace.agreement.attributes import Attributes
from aotpack.trace.agreement.other_inputs.behind import Asked, hidden_cases
from aotpack.trace.agreement.other_inputs.resized import drawn, leaves, repeated, resized, sizes_of
from aotpack.trace.agreement.other_inputs.trials import Comparison, Trial
from aotpack.trace.agreement.other_inputs.turned import (
    FEW,
    broken,
    costs_little,
    raised_behind,
    share_at,
    turned_cases,
)
from aotpack.trace.diagnostics.asked.questions import Branch, Unseen, squeezes
from aotpack.trace.eager import Call
from aotpack.trace.operators.admitted import at_ones, ones, with_ones
from aotpack.trace.operators.named_sizes import asks_unseen, named_sizes

Case: TypeAlias = dict[str, int]
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
    tensors = [x for x in leaves(call) if isinstance(x, torch.Tensor)]
    example = sizes_of(signature, tensors)
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
            small = resized(call, values, repeated)
            count = sum(x.numel() for x in leaves(small) if isinstance(x, torch.Tensor))
            draws = [
                resized(call, values, drawn(seed)) for seed in range(3 if count <= _FEW else 1)
            ]
            ran = [_check(draw, values, known, compare) for draw in draws]
            if not any(ran):
                _check(small, values, known, compare)
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

    def of_sizes(values: Mapping[str, int]) -> Call:
        return resized(call, values, repeated)

    by_symbol = {str(symbols[size.name]): Int.of(size) for size in call.signature.sizes}
    asked = [Asked.of(one, by_symbol) for one in (*branches, *squeezes(call.program))]
    behind = hidden_cases(call, asked, example, enlarged, of_sizes, turned)
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

    def is_wrong(error: BaseException) -> bool:
        symbols = _symbols(call)
        sizes = {symbols[name]: value for name, value in values.items() if name in symbols}
        return raised_behind(error, branches, sizes)

    return Trial(f"where {case},", advice, compare).check(call, is_wrong)
