"""Sizes that torch takes for 2 or more though no model asks: that of the last n - 1 of n elements.

How a tensor lies depends on which sizes are 1. torch asks that of each size, takes the example's
answer and asserts it, or takes the general way and notes nothing. Which sizes are 1 decides all of
it, so a program without the assertions is tried for each set of computed sizes that are 1 together.
"""

import itertools
import math
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils._sympy.printers import PythonPrinter

from aotpack.trace.diagnostics.asked.questions import Branch
from aotpack.trace.diagnostics.multiples import compiled, exactly_rounded, holds, names_in

ASSUMED = "conditions on layouts that a program assumes"  # in the meta of a graph module
_SCANNED = 4096  # sizes of one range
_SCANNED_BESIDE = 512  # of one range beside sizes of others
_MOST_BESIDE = 64
_NEAR = (16, 3)  # small sizes of each range: many, or few where they are too many together
_FEW = 128  # a size that is large, where the model runs
_MOST_TRIED = 2**15
_MOST_FOUND = 64
_MOST_SETS = 64

Sizes = Mapping[str, int]  # by torch's symbol
Range = tuple[int, int]


class TooManySets(Exception):
    """There are more sets of sizes that may be 1 together than are tried."""


def may_assume(
    condition: Any, ranges: Mapping[str, Range], branches: Collection[Branch] | None
) -> bool:
    """Whether a program may assume a condition, which says that a size is not 1.

    One on a declared size may be: every program is tried where such a one is 1. One on a size that
    is computed may not if it decides one of the ``branches`` (None: not known).
    """
    if is_declared(condition):
        return True
    code = compiled_condition(condition)
    if code is None or branches is None:
        return False
    names = sorted(map(str, condition.free_symbols))
    longest = max(names, key=lambda name: ranges[name][1] - ranges[name][0])
    tried = [_first(ranges[one], _SCANNED if one == longest else _NEAR[-1] + 1) for one in names]
    cases = (dict(zip(names, numbers, strict=True)) for numbers in itertools.product(*tried))
    failing = (case for case in itertools.islice(cases, _SCANNED) if not holds(code, case))
    found = [*itertools.islice(failing, _MOST_FOUND)]
    by_symbol = ({s: case[str(s)] for s in condition.free_symbols} for case in found)
    return bool(found) and all(one.holds(case) for case in by_symbol for one in branches)


def fails_near(condition: Any, ranges: Mapping[str, Range]) -> bool:
    """Whether a condition fails for some of the least sizes, or the largest."""
    code, names = compiled_condition(condition), sorted(map(str, condition.free_symbols))
    if code is None or not {*names} <= {*ranges}:
        return False
    tried = [(*_first(ranges[one], _NEAR[-1] + 1), ranges[one][1]) for one in names]
    cases = itertools.islice(itertools.product(*tried), _MOST_TRIED)
    return any(not holds(code, dict(zip(names, numbers, strict=True))) for numbers in cases)


def is_declared(condition: Any) -> bool:
    """True for a condition that the size of an input is not 1."""
    return any(condition == sympy.Ne(symbol, 1) for symbol in condition.free_symbols)


def computed_sizes(program: ExportedProgram) -> Iterator[Any]:
    """Conditions that the sizes of tensors which follow from those of inputs are not 1."""
    known = {*program.range_constraints}
    values = (node.meta.get("val") for node in program.graph.nodes)
    for value in values:
        for one in value if isinstance(value, (tuple, list)) else (value,):
            for size in one.shape if isinstance(one, torch.Tensor) else ():
                found = size.node.expr if isinstance(size, torch.SymInt) else None
                if found is not None and not found.is_Symbol and found.free_symbols <= known:
                    yield sympy.Ne(found, 1)


def cases_at_ones(
    asked: Collection[Any], others: Iterable[Any], ranges: Mapping[str, Range], example: Sizes
) -> list[dict[str, int]]:
    """The least and the largest sizes for each set of conditions that fail together.

    Conditions on sizes that data decide are left out. Sizes of inputs that are 1 count among a set.
    Of sets in which conditions fail that torch has not ``asked``, the least sizes are tried, of the
    first sets.
    """
    first = _codes((one for one in asked if not is_declared(one)), ranges)
    codes = [*first, *_codes((one for one in others if one not in asked), ranges)]
    count = len(first)
    sets: dict[tuple[bool, ...], list[Sizes]] = {}
    for case in _points(codes, ranges, example, are_asked=bool(first)):
        answers = _answers(codes, case)
        if not all(answers):
            sets.setdefault((*answers, *(n == 1 for n in case.values())), []).append(case)
    asked_for = [one for one in sets if not all(one[:count])]
    if len(asked_for) > _MOST_SETS:
        raise TooManySets
    rest = [one for one in sets if all(one[:count])][: _MOST_SETS - len(asked_for)]
    found = [end(sets[one], key=_extent) for one in asked_for for end in (min, max)]
    found += [min(sets[one], key=_extent) for one in rest]
    return [*{tuple(case.items()): dict(case) for case in found}.values()]


def _codes(conditions: Iterable[Any], known: Container[str]) -> list[CodeType]:
    """The codes of conditions on ``known`` sizes."""
    found = map(compiled_condition, dict.fromkeys(conditions))
    return [one for one in found if one and all(name in known for name in names_in(one))]


def compiled_condition(condition: Any) -> CodeType | None:
    """The code of a sympy condition, which reads sizes by torch's symbols."""
    text = exactly_rounded(PythonPrinter().doprint(condition))
    return compiled(text, [*map(str, condition.free_symbols)])


def _answers(codes: Iterable[CodeType], case: Sizes) -> tuple[bool, ...]:
    return tuple(holds(code, case) for code in codes)


def _extent(case: Sizes) -> tuple[int, ...]:
    return sum(case.values()), *case.values()


def _first(span: Range, count: int) -> range:
    return range(span[0], min(span[1] + 1, span[0] + count))


def _points(
    codes: Sequence[CodeType], ranges: Mapping[str, Range], example: Sizes, *, are_asked: bool
) -> Iterator[Sizes]:
    """Sizes beside each other: small and large ones, and those from which answers differ.

    Of too many ranges two differ from the example, if no condition was asked.
    """
    for near in _NEAR:
        tried = _tried(codes, ranges, example, near)
        if math.prod(map(len, tried.values())) <= _MOST_TRIED:
            return (
                dict(zip(tried, numbers, strict=True))
                for numbers in itertools.product(*map(sorted, tried.values()))
            )
    if are_asked:
        raise TooManySets
    pairs = itertools.combinations(tried, 2)
    return (
        {**example, first: a, second: b}
        for first, second in pairs
        for a, b in itertools.product(sorted(tried[first]), sorted(tried[second]))
    )


def _tried(
    codes: Sequence[CodeType], ranges: Mapping[str, Range], example: Sizes, near: int
) -> Mapping[str, Collection[int]]:
    """The sizes of each range, among them so many small ones."""
    read = [name for name in ranges if any(name in code.co_names for code in codes)]
    tried = {name: {example[name]} for name in ranges}
    for name, (low, high) in ranges.items():
        if name in read:
            tried[name] |= {*_first(ranges[name], near), max(low, min(high, _FEW))}
        elif low == 1:
            tried[name].add(1)
    for name in (*read, *read):  # those of the second have partners of the first
        tried[name] |= _turns(name, codes, ranges, tried)
    return tried


def _turns(
    name: str,
    codes: Sequence[CodeType],
    ranges: Mapping[str, Range],
    tried: Mapping[str, Collection[int]],
) -> set[int]:
    """The first and last sizes for each set of answers along one range, beside others' sizes."""
    own = [code for code in codes if name in code.co_names]
    partners = [one for one in tried if one != name and any(one in code.co_names for code in own)]
    beside = itertools.product(*(sorted(tried[one]) for one in partners))
    span = _first(ranges[name], _SCANNED if not partners else _SCANNED_BESIDE)
    turns = set()
    for numbers in itertools.islice(beside, _MOST_BESIDE):
        base = dict(zip(partners, numbers, strict=True))
        found: dict[tuple[bool, ...], list[int]] = {}
        for number in span:
            answers = _answers(own, {**base, name: number})
            if not all(answers):
                found.setdefault(answers, []).append(number)
        turns |= {end(numbers) for numbers in found.values() for end in (min, max)}
    return turns
