"""A kernel's flat axes as loop nests: the digits that its accesses use become axes.

for x < b*s*h: y[x] = a[x // h % s, x % h]     ->     for x0, x1, x2: y = a[x1, x2]

Loops over points end with the digit along which memory is contiguous: images whose channels are
innermost in memory are written channel by channel.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from aotpack.ir.kernels.access import accesses, dot, slope, written_index
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.program import targets, values
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Axis, Extremum, Int, Quotient, Remainder
from aotpack.ir.values import IndexValue, Load, walk

LEAST_LOOP = 8  # iterations of the innermost loop over points


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A kernel over digits: ``x`` and ``r`` are its loops, outermost first; ``r`` may be empty.

    ``flat`` gives the kernel's axes in the digits.
    """

    kernel: Kernel
    x: tuple[Axis, ...]
    r: tuple[Axis, ...]
    flat: tuple[Int, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All loops."""
        return (*self.x, *self.r)


def nest(schedule: Schedule, kernel: Kernel) -> LoopNest:
    """Split the axes of a loop kernel and bind its members to the digits."""
    used = list(_indices(schedule, kernel))
    parts = [_split(axis, used, 0) for axis in kernel.axes]
    inmost = _along_memory(schedule, kernel, parts[0])
    if len(kernel.axes) == 1 and inmost is parts[0][-1]:
        parts = [_split(kernel.axes[0], used, LEAST_LOOP)]
        inmost = parts[0][-1]
    flat = [_position(digits) for digits in parts]
    change = dict(zip(kernel.axes, flat, strict=True))
    members = tuple(
        replace(m, binding=tuple((axis, v.substitute(change)) for axis, v in m.binding))
        for m in kernel.members
    )
    inner = parts[1] if len(parts) == 2 else ()
    loops = (*(digit for digit in parts[0] if digit is not inmost), inmost)
    return LoopNest(replace(kernel, members=members), loops, inner, tuple(flat))


def _along_memory(schedule: Schedule, kernel: Kernel, digits: tuple[Axis, ...]) -> Axis:
    """The digit along which most accesses are contiguous, stores before loads; else the last."""
    if len(digits) == 1:
        return digits[0]
    change = {kernel.axes[0]: _position(digits)}
    votes = dict.fromkeys(reversed(digits), 0)
    for access in accesses(kernel):
        offset = access.offset(schedule.strides).substitute(change)
        for digit in digits:
            if slope(offset, digit) == 1:
                votes[digit] += len(digits) if access.is_store else 1
    return max(votes, key=lambda digit: votes[digit])


def _split(axis: Axis, used: list[Int], least: int) -> tuple[Axis, ...]:
    """The digits of an axis, outermost first; the axis itself when no access needs digits.

    The last one has ``least`` values or more: a shorter loop cannot be vectorised.
    """
    nested = [
        step
        for step in _nested_divisors(axis, used)
        if step.constant is None or step.constant >= least
    ]
    steps = [Int.of(1), *nested, axis.extent]
    extents = [upper // lower for lower, upper in pairwise(steps)]
    if len(extents) == 1:
        return (axis,)
    last = len(extents) - 1
    return tuple(Axis(f"{axis.name}{last - n}", extents[n]) for n in reversed(range(len(extents))))


def _position(digits: tuple[Axis, ...]) -> Int:
    position = Int.of(0)
    for digit in digits:
        position = position * digit.extent + Int.of(digit)
    return position


def _nested_divisors(axis: Axis, used: list[Int]) -> list[Int]:
    """The divisors that split the axis, each a divisor of the next; the most used have priority."""
    counts: Counter[Int] = Counter()
    for expression in used:
        counts.update(dict.fromkeys(_divisors(expression, axis), 1))
    nested: list[Int] = []
    for divisor, _ in sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))):
        wanted = sorted([*nested, divisor], key=typical)
        whole = [Int.of(1), *wanted, axis.extent]
        if all(_divides(a, b) for a, b in pairwise(whole)):
            nested = wanted
    return nested


def _divides(small: Int, large: Int) -> bool:
    """True when the quotient is whole and more than 1."""
    quotient = large // small
    return quotient.constant != 1 and quotient * small is large


def _divisors(expression: Int, axis: Axis) -> Iterator[Int]:
    """The divisors by which an expression splits an axis into digits."""
    for atom in expression.atoms():
        if isinstance(atom, (Quotient, Remainder)):
            step = _step(atom.num, axis)
            if step is not None:
                yield step * atom.den
            yield from _divisors(atom.num, axis)
        elif isinstance(atom, Extremum):
            yield from _divisors(atom.a, axis)
            yield from _divisors(atom.b, axis)


def _step(expression: Int, axis: Axis) -> Int | None:
    """The step of ``axis // step`` (or of that modulo something), if that is the expression."""
    atom = expression.atom
    if atom is axis:
        return Int.of(1)
    if isinstance(atom, Remainder):
        return _step(atom.num, axis)
    if isinstance(atom, Quotient):
        inner = _step(atom.num, axis)
        return None if inner is None else inner * atom.den
    return None


def _indices(schedule: Schedule, kernel: Kernel) -> Iterator[Int]:
    """Every integer that the kernel computes, in its axes: offsets in memory and index values."""
    inside = {name for member in kernel.members for name in targets(member.operation)}
    for member in kernel.members:
        rewrite = Rewriter(dict(member.binding))
        for value in walk(map(rewrite, values(member.operation))):
            if isinstance(value, IndexValue):
                yield value.index
            elif isinstance(value, Load) and value.buffer not in inside:
                yield dot(value.index, schedule.strides[value.buffer])
        for name in targets(member.operation):
            if name in kernel.stored:
                yield dot(written_index(member), schedule.strides[name])
