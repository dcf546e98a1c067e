"""Radix selection: the first few elements of long runs, bit by bit; they keep their order.

    bound = the least key                                # keys: integers in the order of elements
    for each bit, from the highest:
        reached = number of keys of the run that are at least bound + bit
        bound += bit if reached >= few else 0
    # now the few largest are those above the bound, and the first of those at the bound
    place[j] = number of selected elements up to and with j
    first[s] = x[where place becomes s + 1]

All steps but the last are one pass over a run that stays in registers, or in a cache. A bit takes
two instructions for each element; a rank (``expand_sorts.py``) takes as many comparisons as a run
has elements.

Source: radix select, as in Alabi et al., Fast k-selection algorithms for graphics processing units.
"""

from functools import partial

from aotpack.devices import Gpu
from aotpack.ir.operations import Scan
from aotpack.ir.ops.fold import fold, integer_value
from aotpack.ir.ordering import Key, bool_op, clamped_index, count_first, integer_type
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Int, ceil_div, minimum
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value
from aotpack.schedule.sorts.sort_parts import COUNT, Parts, Row

_SHIFT = 16  # two counts in one number: keys above the bound, and keys at it
_HIGH = 1 << _SHIFT


def first_of_runs(parts: Parts, row: Row, few: int, left: int, gpu: Gpu) -> Row:
    """A row of the first ``few`` elements of each run; the last run may have fewer.

    Equal elements keep their order, so sorting the result sorts the row. A result of more than
    ``left`` elements is selected from again: each bit reads it, so it is stored, and not searched
    for again.
    """
    longest = longest_run(few, gpu)
    if bounds(row.size)[1] <= longest:
        return _Selection(parts, row, few, row.size, longest, ()).selected(left)
    run = parts.axis("run", ceil_div(row.size, longest))
    return _Selection(parts, row, few, Int.of(longest), longest, (run,)).selected(left)


def longest_run(few: int, gpu: Gpu) -> int:
    """Elements of a run that fits a program's registers, and is long compared to ``few``."""
    return max(gpu.longest_row // 2, 4 * few)


class _Selection:
    """The selection from each run of ``length``, at most ``longest``; without an axis, one run."""

    def __init__(
        self, parts: Parts, row: Row, few: int, length: Int, longest: int, runs: tuple[Axis, ...]
    ) -> None:
        self.parts, self.row, self.few, self.length, self.runs = parts, row, few, length, runs
        self.longest = longest
        self.number = Int.of(runs[0]) if runs else Int.of(0)
        self.start = self.number * length

    def selected(self, left: int) -> Row:
        """The next row; its buffers are declared, and the operations so far fill them."""
        j, slot = self.parts.axis("j", self.length), self.parts.axis("slot", Int.of(self.few))
        place = self._place(self._selected_so_far(j), slot)
        dtype = integer_type(self.row.size)
        place = fold(Apply("cast", (place,), dtype))
        place = fold(Apply("add", (place, integer_value(self.start, dtype)), dtype))
        at = clamped_index(place, self.row.size)
        count = ceil_div(self.row.size, self.length) if self.runs else Int.of(1)
        of_last = minimum(self.row.size - (count - 1) * self.length, self.few)
        size = (count - 1) * self.few + of_last
        names = self.parts.declared(count * self.few, unfusable=bounds(size)[1] > left)
        axes = self.parts.axes(*self.runs, slot)
        to = self.parts.index(self.number * self.few + Int.of(slot))
        for name, value in zip(names, (self.row.element(at), self.row.position(at)), strict=True):
            self.parts.append(name, axes, value, to)
        element, position = (partial(self.parts.load, name) for name in names)
        return Row(size, element, position)

    def _selected_so_far(self, j: Axis) -> str:
        """A buffer: the number of selected elements up to and with each place of a run."""
        key = self._key(self.start + Int.of(j))
        bound = self._bound(key, j)
        above, equal = (bool_op(op, key.value, bound) for op in ("gt", "eq"))
        left = _int32("sub", _number(self.few), self._count("above", j, above))
        one = _int32("where", above, _number(1), _int32("where", equal, _number(_HIGH), _number(0)))
        so_far = self._so_far(j, one)
        equal_so_far = _int32("minimum", _int32("shift_right", so_far, _number(_SHIFT)), left)
        name = self.parts.temporary("selected", self._axes(j), COUNT)
        above_so_far = _int32("bitwise_and", so_far, _number(_HIGH - 1))
        selected = _int32("add", above_so_far, equal_so_far)
        self.parts.append(name, self._axes(j), selected, _places(self._axes(j)))
        return name

    def _key(self, at: Int) -> Key:
        """The key at a place of the row; past its end, the least."""
        key = self.parts.key(self.row.element(at), descending=not self.parts.sort.descending)
        least = key.integer(key.least)
        is_inside = bool_op("lt", integer_value(at), integer_value(self.row.size))
        value = fold(Guarded(is_inside, key.value, least, least.dtype))
        return Key(value, key.least, key.bits)

    def _bound(self, key: Key, j: Axis) -> Value:
        """The largest bound that at least ``few`` keys of a run reach, or the least key."""
        bound: Value = key.integer(key.least)
        for bit in reversed(range(key.bits)):
            highest = bit == key.bits - 1
            step = key.integer(key.least + 2**bit if highest else 2**bit)  # the sum fits its type
            higher = step if highest else fold(Apply("add", (bound, step), step.dtype))
            reached = bool_op(
                "ge", self._count("reached", j, bool_op("ge", key.value, higher)), _number(self.few)
            )
            bound = fold(Apply("where", (reached, higher, bound), step.dtype))
        return bound

    def _count(self, role: str, j: Axis, holds: Value) -> Load:
        return self.parts.count(role, self.parts.axes(*self.runs), j, holds)

    def _so_far(self, j: Axis, one: Value) -> Load:
        """The inclusive prefix sum of a number over the places of a run."""
        axes = self._axes(j)
        name = self.parts.temporary("so_far", axes, COUNT)
        self.parts.operations.append(Scan((name,), axes, j, "sum", (one,), self.parts.sort.origin))
        return Load(name, _places(axes), COUNT)

    def _place(self, so_far: str, slot: Axis) -> Value:
        """The place in a run of the element selected for a slot."""

        def is_before(place: Value) -> Value:
            axes = self.parts.axes(*self.runs, slot)
            there = clamped_index(place, self.length)
            index = tuple(there if axis is slot else Int.of(axis) for axis in axes)
            return bool_op("le", Load(so_far, index, COUNT), IndexValue(Int.of(slot), COUNT))

        return count_first(integer_value(self.length, COUNT), self.longest, is_before)

    def _axes(self, j: Axis) -> tuple[Axis, ...]:
        return self.parts.axes(*self.runs, j)


def _places(axes: tuple[Axis, ...]) -> tuple[Int, ...]:
    return tuple(map(Int.of, axes))


def _number(number: int) -> Const:
    return Const(number, COUNT)


def _int32(op: str, *args: Value) -> Value:
    return fold(Apply(op, args, COUNT))
