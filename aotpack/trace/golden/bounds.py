"""How far from the reference each element of a result may be.

A float may be off by 1.5 times the largest error of eager, plus a unit of its type at the largest
number: the accuracy law. Beside large numbers this says nothing of small ones. So each is also held
to eager's error on numbers like it, and to what roundings do to it in further runs of the reference
(``noise``). An integer or bool that no rounding changes must be equal; others lie between the
values seen.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from aotpack.trace.golden.noise import STRENGTH

FEWEST = 64  # numbers of one size that show eager's usual error
_LARGE = 2**60  # beyond it twice the distance of two integers overflows
_USUAL = STRENGTH / 2  # changes in further runs by as much are usual errors
_PLACES = 16  # in the last place, that float64 results may differ
_FACTOR = 4.0  # the largest ratio of numbers of one size


@dataclass(slots=True)
class Seen:
    """What further runs of the reference gave for one result.

    ``others`` are results that may be as far from it as eager's: those of tf32 factors.
    """

    exact: torch.Tensor
    is_exact: bool = True  # False for eager's own results, in place of the reference
    others: list[torch.Tensor] = field(default_factory=list)
    low: torch.Tensor = field(init=False)
    high: torch.Tensor = field(init=False)
    many: torch.Tensor = field(init=False)  # more than two values
    runs: int = 0

    def __post_init__(self) -> None:
        self.low, self.high = self.exact.clone(), self.exact.clone()
        self.many = torch.zeros(self.exact.shape, dtype=torch.bool)

    def errors(self, eager: torch.Tensor) -> torch.Tensor:
        """Eager's errors, or those of the others where they are larger."""
        worst = errors_of(eager, self.exact)
        for other in self.others:
            worst = torch.maximum(worst, errors_of(other, self.exact))
        return worst

    def add(self, result: torch.Tensor) -> None:
        """One more run."""
        if result.shape != self.exact.shape:
            return
        self.runs += 1
        self.many |= (self.low != self.high) & (result != self.low) & (result != self.high)
        self.low = torch.minimum(self.low, result)
        self.high = torch.maximum(self.high, result)

    @property
    def change(self) -> torch.Tensor:
        """The largest change of each number."""
        return torch.maximum(self.high - self.exact, self.exact - self.low)


@dataclass(slots=True)
class Runs:
    """One result in all runs: of the reference (or eager, in its place), and those after it.

    They are kept in their own types, as large caches take little more so, and compared one result
    at a time. ``others`` are as in ``Seen``.
    """

    first: torch.Tensor
    is_exact: bool = True
    more: list[torch.Tensor] = field(default_factory=list)
    others: list[torch.Tensor] = field(default_factory=list)

    def seen(self) -> Seen:
        """The values of each element."""
        others = [one.detach().cpu() for one in self.others]
        made = Seen(wide(self.first), self.is_exact, others)
        for one in self.more:
            made.add(wide(one))
        return made


def wide(result: torch.Tensor) -> torch.Tensor:
    """A result in float64, if it holds floats."""
    result = result.detach().cpu()
    return result.double() if result.is_floating_point() else result


def float_bounds(eager: torch.Tensor, seen: Seen) -> npt.NDArray[np.uint16]:
    """The largest error of each element as bfloat16, rounded up.

    A few numbers on which eager happens to be nearly exact say little of its usual error: what
    further runs show counts too. Where eager alone leaves the range of its type, anything goes.
    """
    exact = seen.exact.reshape(-1)
    unit, least = torch.finfo(eager.dtype).eps, torch.finfo(eager.dtype).tiny
    size = exact.abs()
    finite = size.isfinite()
    largest = float(size[finite].max()) if bool(finite.any()) else 0.0
    off = seen.errors(eager).reshape(-1)
    if seen.runs:
        change = seen.change.reshape(-1).nan_to_num(float("inf"))
        if len(off) < FEWEST:
            off = torch.maximum(off, torch.where(finite, change, 0.0) / _USUAL)
        allowed = 1.5 * _usual(size, off, enough=True) + change
    else:
        allowed = 1.5 * _usual(size, off, enough=False)
    factor = 1.5 if seen.is_exact else 2.5  # eager may be off, and the result to the other side
    law = factor * float(off.max()) + unit * largest if len(off) else 0.0
    allowed = (allowed + unit * size + least).clamp(max=law)
    if eager.dtype is torch.float64:  # the reference is no wider
        allowed = torch.full_like(allowed, law + (_PLACES - 1) * unit * largest)
    allowed[finite & ~eager.reshape(-1).isfinite()] = float("inf")
    return rounded_up(allowed.nan_to_num(law).numpy())


def errors_of(eager: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Eager's errors, where reference and eager are numbers of the result's type."""
    measured = eager.isfinite() & exact.to(eager.dtype).isfinite()
    return torch.where(measured, (eager.double() - exact).abs(), 0.0)


def in_range(exact: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """The reference; infinite where it and eager leave the range of the result's type."""
    rounded = exact.to(eager.dtype).double()
    return torch.where(rounded.isinf() & (eager.double() == rounded), rounded, exact)


def _usual(size: torch.Tensor, off: torch.Tensor, *, enough: bool) -> torch.Tensor:
    """The largest of ``off`` on numbers like each, up to a factor of 4 on both sides.

    Few numbers show little; unless they are ``enough``, those next in size count too.
    """
    if not size.numel():
        return off
    step = torch.where(size > 0, size.log2() / np.log2(_FACTOR), float("-inf"))
    steps = step.nan_to_num(1024.0, 1024.0, -1024.0).floor().long() + 1024
    worst = torch.zeros(2051, dtype=torch.float64).scatter_reduce(0, steps + 1, off, "amax")
    around = torch.stack([worst[:-2], worst[1:-1], worst[2:]]).amax(0)
    return (around if enough else _with_others(around, steps))[steps]


def _with_others(worst: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """For each step the worst of its own and of those next to it that make ``FEWEST`` numbers.

    Larger numbers come first: their errors are larger.
    """
    count = torch.bincount(steps, minlength=len(worst)).tolist()
    there = [place for place, number in enumerate(count) if number]
    merged = worst.clone()
    for index, place in enumerate(there):
        held = 0
        for other in (*there[index:], *reversed(there[:index])):
            merged[place] = torch.maximum(merged[place], worst[other])
            held += count[other]
            if held >= FEWEST:
                break
    return merged


def ranges(eager: torch.Tensor, seen: Seen) -> npt.NDArray[np.int64]:
    """Rows (position, low, high): the elements that roundings change, and what they may be.

    Of two values seen, both count and what lies between. Where there are more, as many again are
    allowed on each side, for a few runs do not show them all.
    """
    seen.add(eager.to(seen.exact.dtype))
    low, high = (part.reshape(-1).long() for part in (seen.low, seen.high))
    places = torch.nonzero(low != high).reshape(-1)
    low, high, many = low[places], high[places], seen.many.reshape(-1)[places]
    is_small = (low.abs() < _LARGE) & (high.abs() < _LARGE)
    more = torch.where(many & is_small, high - low, 0)
    return torch.stack([places, low - more, high + more], 1).numpy()


def rounded_up(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """bfloat16 bits of numbers from 0, rounded up."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    narrow = np.where(narrow < values, np.nextafter(narrow, np.float32(np.inf)), narrow)
    bits = narrow.view(np.uint32)
    return np.asarray((bits >> 16) + (bits & 0xFFFF > 0), np.uint16)
