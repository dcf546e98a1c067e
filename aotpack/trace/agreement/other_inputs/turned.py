"""Sizes at which a condition on several sizes has another answer: ``if t == 8 * b + 100``.

Few pairs of a range keep such a condition, so it is evaluated for all of them at once. Of ranges
with too many pairs the small and the largest sizes are tried beside each other, and each comparison
is solved for each size that it is linear in: then all sizes of the others are tried.
"""

import dis
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from traceback import walk_tb
from typing import Any, TypeAlias

import numpy as np
import sympy
from sympy.core.relational import Relational
from torch.utils._sympy.functions import FloorDiv

from aotpack.errors import TraceError
from aotpack.ir.symbolic.integers import Var
from aotpack.trace.diagnostics.asked.questions import Branch
from aotpack.trace.diagnostics.assumed import compiled_condition
from aotpack.trace.diagnostics.evaluated import evaluated, truths
from aotpack.trace.diagnostics.multiples import holds
from aotpack.trace.eager import Call
from aotpack.trace.source import shown_path

Case: TypeAlias = Mapping[str, int]  # sizes by name
Ranges: TypeAlias = Mapping[Any, Var]  # by torch's symbol
Points: TypeAlias = Mapping[Any, Any]  # arrays of one shape, or that broadcast, by symbol
_MOST_POINTS = 2**24  # of which a condition is evaluated
_FEW_POINTS = 2**20  # where its ranges have more
_ALONE = 2**14  # evaluated one by one, where numpy cannot
FEW = 128  # sizes that are run whatever they cost
_CHUNK = 2**18
_RAISES = frozenset(
    code for name, code in dis.opmap.items() if name.startswith(("RAISE_VARARGS", "UNPACK_"))
)
_WRONG_COUNTS = re.compile(r"(tuple|list) index out of range|.*required positional arguments?\b.*")
_KEPT = 4096  # of a chunk


def turned_cases(
    call: Call,
    branches: Iterable[Branch],
    symbols: Mapping[str, Any],
    example: Case,
    share: float,
) -> Iterator[Case]:
    """For each condition the fewest and the largest sizes at which its answer is another.

    Those whose run costs little are given; a condition that has none is refused. ``symbols`` are
    torch's by name, and a run on the example takes the ``share`` of what one may.
    """
    ranges = {symbols[size.name]: size for size in call.signature.sizes}
    asked = {(str(one.condition), one.answer): one for one in branches}
    for branch in asked.values():
        points = points_of(sympy.Not(branch.assumed), ranges)
        if points is None:
            continue
        found = {ranges[symbol].name: numbers for symbol, numbers in points.items()}
        cases = _few_and_many(call, found, example)
        runs = [one for one in cases if _may_run(one, example, share)]
        if not runs and not branch.is_open:  # the program may have that one: ``torch.cond(n > 9,``
            raise _too_large(call, branch, symbols, cases[0])
        yield from runs


def _few_and_many(call: Call, found: Mapping[str, Any], example: Case) -> list[Case]:
    """By elements of the inputs: the fewest, the fewest without sizes of 1, and steps above."""
    values = {**example, **found}
    (count,) = {len(numbers) for numbers in found.values()}
    elements = np.zeros(count)
    for spec in call.signature.inputs:
        elements += math.prod(np.asarray(size.evaluate(values), float) for size in spec.shape)
    order = np.argsort(elements, kind="stable")
    above = np.all([numbers > 1 for numbers in found.values()], axis=0)[order]
    places = [order[0], *order[above][:1], *order[[count // 4, count // 2, -1]]]
    cases = ({name: int(numbers[k]) for name, numbers in found.items()} for k in places)
    return [*{tuple(one.items()): {**example, **one} for one in cases}.values()]


def _may_run(values: Case, example: Case, share: float) -> bool:
    return max(values.values()) <= FEW or costs_little(values, example, share)


def costs_little(values: Case, example: Case, share: float) -> bool:
    """By estimate; a run on the example takes the ``share`` of what one may."""
    return share_at(values, example, share) <= 1


def share_at(values: Case, example: Case, share: float) -> float:
    """What a run takes of what one may, where one on the example takes the ``share``."""
    growth = math.prod(values[name] / example[name] for name in values)
    return growth * growth * share  # attention grows with the square


def _too_large(call: Call, branch: Branch, symbols: Mapping[str, Any], values: Case) -> TraceError:
    named = {symbol: sympy.Symbol(name) for name, symbol in symbols.items()}
    case = ", ".join(f"{name}={number}" for name, number in values.items())
    code = branch.code
    return TraceError(
        f"exporting {call.signature.name}: the model asks for {branch.condition.xreplace(named)}, "
        f"in {code.co_name} ({shown_path(code.co_filename)}:{code.co_firstlineno}), which "
        f"torch.export took for {branch.answer}. The answer is another where {case}: a run on such "
        "inputs is too large to compare.\nAccepted is a model whose ways compute the same: declare "
        "ranges without these sizes, or drop the condition."
    )


def points_of(condition: Any, ranges: Ranges, most: int = _MOST_POINTS) -> Points | None:
    """Sizes by symbol for which a condition holds; None where none were found.

    Of ranges with more than the ``most`` points, some are tried.
    """
    symbols = sorted(getattr(condition, "free_symbols", ()), key=str)
    if not symbols or not {*symbols} <= {*ranges}:
        return None
    spans = [_span(ranges[one]) for one in symbols]
    if math.prod(map(len, spans)) <= most:
        tried = _grid(symbols, [*map(_array, spans)])
    else:
        near = [_near(span, len(spans), _FEW_POINTS) for span in spans]
        tried = itertools.chain(
            _grid(symbols, near), _solved(condition, dict(zip(symbols, spans, strict=True)))
        )
    found = [one for points in tried for one in _holding(condition, points)]
    if not found and not _is_evaluated(condition, spans, symbols):
        found = _one_by_one(condition, symbols, spans)
    if not found:
        return None
    return {one: np.concatenate([points[one] for points in found]) for one in symbols}


def _span(size: Var) -> range:
    first = -(-size.low // size.multiple) * size.multiple
    return range(first, size.high + 1, size.multiple)


def _near(span: range, count: int, most: int) -> Any:
    """The first sizes of a range, and some of the last."""
    few = max(4, int(most ** (1 / count)))
    if len(span) <= few:
        return _array(span)
    return np.concatenate([_array(span[: few - few // 4]), _array(span[-(few // 4) :])])


def _array(span: range) -> Any:
    return np.arange(span.start, span.stop, span.step)


def _grid(symbols: Sequence[Any], sizes: Sequence[Any]) -> Iterator[Points]:
    """All sizes beside each other, some of the first at a time; of none, one point."""
    if not sizes:
        yield {}
        return
    rest = math.prod(map(len, sizes[1:]))
    axes = np.ix_(*sizes)
    step = max(1, _CHUNK // rest)
    for start in range(0, len(sizes[0]), step):
        yield dict(zip(symbols, [axes[0][start : start + step], *axes[1:]], strict=True))


def _holding(condition: Any, points: Points) -> Iterator[Points]:
    """Some of the points at which a condition holds."""
    found = _truths(condition, points)
    if found is None:
        return
    shape = np.broadcast_shapes(*(one.shape for one in points.values()))
    (places,) = np.nonzero(np.broadcast_to(found, shape).reshape(-1))
    if len(places):
        some = places[:: max(1, len(places) // _KEPT)]
        yield {
            symbol: np.broadcast_to(one, shape)[np.unravel_index(some, shape)]
            for symbol, one in points.items()
        }


def _truths(condition: Any, points: Points) -> Any:
    try:
        return truths(condition, points)
    except ZeroDivisionError:
        return None


def _is_evaluated(condition: Any, spans: Sequence[range], symbols: Sequence[Any]) -> bool:
    ends = (np.array([span[0], span[-1]]) for span in spans)
    return _truths(condition, dict(zip(symbols, ends, strict=True))) is not None


def _one_by_one(condition: Any, symbols: Sequence[Any], spans: Sequence[range]) -> list[Points]:
    """The same of few points, for a condition with floats."""
    code = compiled_condition(condition)
    if code is None:
        return []
    near = [_near(span, len(spans), _ALONE).tolist() for span in spans]
    cases = [dict(zip(symbols, numbers, strict=True)) for numbers in itertools.product(*near)]
    return [
        {symbol: np.array([number]) for symbol, number in case.items()}
        for case in cases
        if holds(code, {str(symbol): number for symbol, number in case.items()})
    ]


def _solved(condition: Any, spans: Mapping[Any, range]) -> Iterator[Points]:
    """Sizes around those for which both sides of a comparison are equal, as real numbers."""
    for relation in sorted(condition.atoms(Relational), key=str):
        sides = (relation.lhs - relation.rhs).replace(FloorDiv, lambda a, b: a / b)
        difference = sympy.expand(sympy.numer(sympy.together(sides)))
        for unknown in sorted(difference.free_symbols & {*spans}, key=str):
            if not difference.is_polynomial(unknown) or sympy.degree(difference, unknown) != 1:
                continue
            others = [one for one in spans if one != unknown]
            sizes = [_near(spans[one], len(others), _FEW_POINTS) for one in others]
            for points in _grid(others, sizes):
                yield from _for_unknown(difference, unknown, spans[unknown], points)


def _for_unknown(difference: Any, unknown: Any, span: range, points: Points) -> Iterator[Points]:
    """The points with the whole numbers around the root of a linear ``difference``."""
    parts = [evaluated(difference.coeff(unknown, power), points) for power in (1, 0)]
    if any(part is None for part in parts):
        return
    shape = np.broadcast_shapes(*(one.shape for one in points.values()))
    times, rest = (np.broadcast_to(part, shape).reshape(-1) for part in parts)
    flat = {symbol: np.broadcast_to(one, shape).reshape(-1) for symbol, one in points.items()}
    is_solved = times != 0
    roots = -rest[is_solved] // times[is_solved]
    roots -= (roots - span[0]) % span.step
    for step in (-1, 0, 1):
        found = roots + step * span.step
        is_in = (found >= span[0]) & (found <= span[-1]) & ((found - span[0]) % span.step == 0)
        if is_in.any():
            kept = {symbol: one[is_solved][is_in] for symbol, one in flat.items()}
            yield {**kept, unknown: found[is_in]}


def broken(
    branches: Iterable[Branch], cases: Iterable[Mapping[Any, int]]
) -> Iterator[Mapping[Any, int]]:
    """For each answer that is not right in all cases, the first of those where it is not."""
    tried = list(cases)
    for branch in branches:
        yield from [sizes for sizes in tried if not branch.holds(sizes)][:1]


def raised_behind(
    error: BaseException, branches: Iterable[Branch], sizes: Mapping[Any, int]
) -> bool:
    """Whether Python raises behind a condition whose answer is another for ``sizes``.

    The code that asks for it raises, or has called what does; it may have taken another number of
    results than there are. What operators raise does not count, which may be about data.
    """
    frames = [*walk_tb(error.__traceback__)]
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    is_raised = (
        place is not None and place.tb_frame.f_code.co_code[place.tb_lasti] in _RAISES
    ) or (isinstance(error, (IndexError, TypeError)) and _WRONG_COUNTS.fullmatch(str(error)))
    if not is_raised:
        return False
    codes = {frame.f_code for frame, _ in frames}
    return any(branch.code in codes and not branch.holds(sizes) for branch in branches)
