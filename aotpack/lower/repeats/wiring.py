"""What flows into, between and out of the equal pieces of a stretch of nodes.

A piece's operand is one of its own results, or comes from outside. Pieces are calls of one body if
the same operands come from outside in each. Two of those are one parameter of the body if they are
the same tensor in each call.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise

from aotpack.lower.repeats.periods import Stretch
from aotpack.stages import GraphNode, Ref

MOST_CUTS = 4  # that are looked at
Operands = tuple[tuple[Ref, ...], ...]
"""Of each node of a list."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Nodes in order, the tensors that are results of all, and the tensors that these replace."""

    nodes: Sequence[GraphNode]
    results: Sequence[Ref]
    updates: Mapping[Ref, Ref]
    operands: Operands
    places: Mapping[str, int]  # of nodes
    last_uses: Mapping[Ref, int]

    @staticmethod
    def of(
        nodes: Sequence[GraphNode], results: Sequence[Ref], updates: Mapping[Ref, Ref]
    ) -> "Flow":
        operands = tuple(tuple(node.refs()) for node in nodes)
        last = {ref: place for place, refs in enumerate(operands) for ref in refs}
        last |= dict.fromkeys((*results, *updates.values()), len(nodes))
        places = {node.name: place for place, node in enumerate(nodes)}
        return Flow(nodes, results, updates, operands, places, last)


Inner = tuple[int, int]
"""A result inside of a piece: the place of its node, and its number."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Pieces from node ``start`` on; ``parameters`` has a row of tensors for each, call by call.

    ``outputs`` are used outside; ``changed`` are new values, each of the parameter with a number.
    """

    start: int
    period: int
    count: int
    parameters: tuple[tuple[Ref, ...], ...] = field(repr=False)
    outputs: tuple[Inner, ...] = ()
    changed: tuple[tuple[int, Inner], ...] = ()

    @property
    def results(self) -> tuple[Inner, ...]:
        """What a call gives, in order."""
        return (*self.outputs, *(inner for _, inner in self.changed))

    def calls(self) -> range:
        """The place of the first node of each call."""
        return range(self.start, self.start + self.count * self.period, self.period)


def wiring_of(flow: Flow, stretch: Stretch) -> Wiring | None:
    """The wiring of the best way to cut a stretch: many calls, then few results; None for none."""
    found = [
        one
        for start in _narrow_cuts(flow, stretch)[:MOST_CUTS]
        if (one := _cut_at(flow, stretch, start)) is not None
    ]
    return min(found, key=lambda one: (-one.count, len(one.results), one.start), default=None)


def _narrow_cuts(flow: Flow, stretch: Stretch) -> list[int]:
    """The places where a first piece may begin; those that fewest tensors cross come first."""
    end = stretch.start + stretch.count * stretch.period + stretch.slack
    changes = [0] * (end + 2)
    for place in range(stretch.start, end):
        for output in range(len(flow.nodes[place].results)):
            last = flow.last_uses.get(Ref(flow.nodes[place].name, output), place)
            changes[place + 1] += 1
            changes[min(last, end) + 1] -= 1
    crossing = list(accumulate(changes))
    starts = range(stretch.start, stretch.start + stretch.slack + 1)
    return sorted(starts, key=lambda start: crossing[start + stretch.period])


def _cut_at(flow: Flow, stretch: Stretch, start: int) -> Wiring | None:
    """The wiring of the longest row of pieces with equal insides, if they follow each other."""
    period = stretch.period
    starts = range(start, start + stretch.count * period, period)
    groups = [
        [*same] for _, same in groupby(starts, key=lambda first: _inside(flow, first, period))
    ]
    chosen = max(groups, key=len)
    if len(chosen) < 2:
        return None
    parameters = {
        row: None
        for place in range(period)
        for row in zip(*(flow.operands[first + place] for first in chosen), strict=True)
        if not _is_inside(flow, row[0], chosen[0], period)
    }
    rows = tuple(parameters)
    outputs = _outputs(flow, chosen, period)
    changed = _changed(flow, chosen, rows)
    taken = {inner for _, inner in changed}
    kept = tuple(inner for inner in outputs if inner not in taken)
    made = Wiring(chosen[0], period, len(chosen), rows, kept, changed)
    return made if _is_chain(flow, made) else None


def _inside(flow: Flow, first: int, period: int) -> tuple[tuple[Inner | None, ...], ...]:
    """Where the operands of a piece are made; None for outside."""
    return tuple(
        tuple(
            (flow.places[ref.name] - first, ref.output)
            if _is_inside(flow, ref, first, period)
            else None
            for ref in flow.operands[first + place]
        )
        for place in range(period)
    )


def _is_inside(flow: Flow, ref: Ref, first: int, period: int) -> bool:
    return first <= flow.places.get(ref.name, -1) < first + period


def made_by(flow: Flow, first: int, inner: Inner) -> Ref:
    """The tensor that a result is, in the piece from ``first`` on."""
    place, output = inner
    return Ref(flow.nodes[first + place].name, output)


def _outputs(flow: Flow, starts: Sequence[int], period: int) -> Iterator[Inner]:
    """The results that some piece gives to others."""
    for place in range(period):
        for output in range(len(flow.nodes[starts[0] + place].results)):
            uses = (
                flow.last_uses.get(made_by(flow, first, (place, output)), -1) - first
                for first in starts
            )
            if any(use >= period for use in uses):
                yield place, output


def _changed(
    flow: Flow, starts: Sequence[int], rows: Sequence[tuple[Ref, ...]]
) -> tuple[tuple[int, Inner], ...]:
    """The parameters that become a result of their call, in each call, with that result."""
    found: dict[Inner, int] = {}
    for number, row in enumerate(rows):
        values = [flow.updates.get(ref) for ref in row]
        inner = {
            (flow.places.get(value.name, -1) - first, value.output)
            for first, value in zip(starts, values, strict=True)
            if value is not None
        }
        if None not in values and len(inner) == 1 and len({*row}) == len(row):
            place = inner.pop()
            if place[0] >= 0:
                found.setdefault(place, number)
    return tuple((number, inner) for inner, number in found.items())


def _is_chain(flow: Flow, made: Wiring) -> bool:
    """True if each call but the first takes a result of the call before it."""
    for before, call in pairwise(range(made.count)):
        first = made.start + before * made.period
        given = {made_by(flow, first, inner) for inner in made.outputs}
        if not any(row[call] in given for row in made.parameters):
            return False
    return True
