"""Sizes that torch takes for 2 or more though no model asks: that of the last n - 1 of n elements.

How a tensor lies depends on which sizes are 1. torch asks that of each size, takes the example's
answer and asserts it. A program without the assertion is tried at sizes where the answer is
another, as each program is where a declared size is 1.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy

from aotpack.trace.diagnostics.branches import Branch

AT_ONES = "sizes at which a computed size is 1"  # in the meta of a graph module
_MOST_TRIED = 4096
_MOST_FOUND = 64
_BESIDE = 4  # small sizes of each range but the longest


@dataclass(slots=True)
class Assumed:
    """Decides which conditions a program may assume; ``cases`` are sizes where those fail.

    A condition on a declared size is assumed: every program is tried where such a one is 1. One on
    a size that is computed is not if it decides one of the ``branches`` (None: not known).
    """

    ranges: Mapping[Any, tuple[int, int]]
    branches: Collection[Branch] | None
    cases: list[Mapping[str, int]] = field(default_factory=list)  # by torch's symbol

    def takes(self, condition: Any) -> bool:
        """Whether a condition may be assumed, which says that a size is not 1."""
        if any(condition == sympy.Ne(symbol, 1) for symbol in condition.free_symbols):
            return True
        found = [*itertools.islice(self._failing(condition), _MOST_FOUND)]
        if self.branches is None or not found:
            return False
        if not all(branch.holds(case) for branch in self.branches for case in found):
            return False
        for case in (found[0], found[-1]):
            self.cases.append({str(symbol): number for symbol, number in case.items()})
        return True

    def _failing(self, condition: Any) -> Iterator[Mapping[Any, int]]:
        """Sizes for which a condition does not hold: small ones, and all of the longest range."""
        spans = {s: self.ranges[s] for s in sorted(condition.free_symbols, key=str)}
        longest = max(spans, key=lambda s: spans[s][1] - spans[s][0])
        most = {s: _MOST_TRIED if s == longest else _BESIDE for s in spans}
        tried = [range(low, min(high + 1, low + most[s])) for s, (low, high) in spans.items()]
        for numbers in itertools.islice(itertools.product(*tried), _MOST_TRIED):
            case = dict(zip(spans, numbers, strict=True))
            if condition.subs(case) is not sympy.true:
                yield case
