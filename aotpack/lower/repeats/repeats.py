"""Graph -> graph, with repeated layers as calls of one body.

    h1 = f(h0, w0, mask)                      h1 = body(h0, w0, mask)
    h2 = f(h1, w1, mask)             ->       h2 = body(h1, w1, mask)

Layers are found by what they compute: a stretch of operators that follows itself, with equal types,
shapes and constants, each given a result of the one before. Stretches without a product are left
alone: they fuse into a few kernels anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.graph import CALL
from aotpack.ir.names import free_name
from aotpack.ir.symbolic.integers import Int
from aotpack.lower.repeats.differences import difference
from aotpack.lower.repeats.nodes import has_product, is_counted, node_key, with_refs
from aotpack.lower.repeats.periods import stretches
from aotpack.lower.repeats.wiring import Flow, Wiring, made_by, wiring_of
from aotpack.stages import Body, Graph, GraphNode, Ref, TensorSpec, every_node

SHORTEST = 2  # operators of a body
MOST_TRIED = 64  # stretches, before no more layers are looked for


def with_repeats(graph: Graph) -> tuple[Graph, tuple[str, ...]]:
    """The graph with repeated layers as calls, and a line about each body.

    If there are none, the same graph, and a line that says why.
    """
    roller = _Roller(graph)
    if is_counted(graph.nodes):
        return graph, (difference(graph, roller.specs),)
    changed = [Ref(name) for name, _ in graph.updates]
    values = tuple(value for _, value in graph.updates)
    made = roller.rolled(_Piece(graph.nodes, graph.outputs, values), changed)
    if not roller.lines:
        return graph, (difference(graph, roller.specs),)
    updates = zip((name for name, _ in graph.updates), made.values, strict=True)
    new = replace(graph, nodes=made.nodes, outputs=made.results, updates=tuple(updates))
    return new, tuple(roller.lines)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Nodes, the results of all, and the new ``values`` of tensors that they change."""

    nodes: tuple[GraphNode, ...]
    results: tuple[Ref, ...]
    values: tuple[Ref, ...]


class _Roller:
    """Makes calls of nodes; ``lines`` say of which. ``specs`` are those of all tensors."""

    def __init__(self, graph: Graph) -> None:
        specs = [*graph.signature.inputs]
        for one in graph.weights:
            specs.append(TensorSpec(one.name, one.dtype, tuple(map(Int.of, one.shape))))
        specs += (TensorSpec(one.word, DType.INT32, ()) for one in graph.signature.assertions)
        self.specs = {Ref(spec.name): spec for spec in specs}
        kept = {one.name for one in graph.weights} - {name for name, _ in graph.updates}
        self._stored = {Ref(name) for name in kept}
        self._taken = {spec.name for spec in specs}
        self._taken |= {node.name for node in every_node(graph.nodes)}
        self.lines: list[str] = []

    def rolled(self, piece: _Piece, changed: Sequence[Ref]) -> _Piece:
        """The nodes with their stretches as calls, those that save most first."""
        for node in piece.nodes:
            self.specs |= {Ref(node.name, n): spec for n, spec in enumerate(node.results)}
        while True:
            updates = dict(zip(changed, piece.values, strict=True))
            flow = Flow.of(piece.nodes, piece.results, updates)
            wiring = self._best(flow)
            if wiring is None:
                return piece
            self.lines.append(self._line(wiring))
            piece = self._with_calls(flow, piece, wiring)

    def _line(self, wiring: Wiring) -> str:
        """What is one body: named by the first weight that differs from call to call."""
        rows = [row for row in wiring.parameters if self._stored.issuperset(row)]
        ends = ((row[0].name, row[-1].name) for row in rows if len({*row}) > 1)
        names = next((f": {first} to {last}" for first, last in ends), "")
        return f"{wiring.count} layers of {wiring.period} operators are calls of one body{names}"

    def _best(self, flow: Flow) -> Wiring | None:
        """The wiring of the stretch that saves most."""
        keys = [node_key(node, self.specs) for node in flow.nodes]
        for stretch in stretches(keys, SHORTEST)[:MOST_TRIED]:
            inside = flow.nodes[stretch.start : stretch.start + stretch.period]
            if has_product(inside) and (wiring := wiring_of(flow, stretch)) is not None:
                return wiring
        return None

    def _with_calls(self, flow: Flow, piece: _Piece, wiring: Wiring) -> _Piece:
        """The nodes with calls of a body in place of the pieces."""
        order, names = self._parameters(wiring)
        body = self._body(flow, wiring, order, names)
        changes = tuple(order.index(number) for number, _ in wiring.changed)
        calls: list[GraphNode] = []
        new: dict[Ref, Ref] = {}
        for number, first in enumerate(wiring.calls()):
            given = tuple(wiring.parameters[row][number] for row in order)
            old = [made_by(flow, first, inner) for inner in wiring.results]
            name = self._free(f"{old[0].name}_call")
            results = tuple(self.specs[ref] for ref in old)
            source = flow.nodes[first].source
            calls.append(
                GraphNode(
                    name, CALL, (given,), (), results, source, changes=changes, bodies=(body,)
                )
            )
            made = [Ref(name, place) for place in range(len(old))]
            new |= zip(old, made, strict=True)
            self.specs |= zip(made, results, strict=True)
        end = wiring.start + wiring.count * wiring.period
        nodes = (*piece.nodes[: wiring.start], *calls, *piece.nodes[end:])

        def moved(ref: Ref) -> Ref:
            return new.get(ref, ref)

        return _Piece(
            tuple(with_refs(node, moved) for node in nodes),
            tuple(map(moved, piece.results)),
            tuple(map(moved, piece.values)),
        )

    def _parameters(self, wiring: Wiring) -> tuple[tuple[int, ...], dict[int, str]]:
        """The numbers of the parameters, weights last, and their names."""
        numbers = range(len(wiring.parameters))
        weights = [n for n in numbers if self._stored.issuperset(wiring.parameters[n])]
        order = (*(n for n in numbers if n not in weights), *weights)
        names: dict[int, str] = {}
        for number in order:
            row = wiring.parameters[number]
            name = names[number] = self._free(_common_name(row))
            self.specs[Ref(name)] = replace(self.specs[row[0]], name=name)
        self._stored.update(Ref(names[number]) for number in weights)
        return order, names

    def _body(
        self, flow: Flow, wiring: Wiring, order: tuple[int, ...], names: dict[int, str]
    ) -> Body:
        """The first piece with parameters, and with calls inside of it."""
        starts, own = wiring.calls(), set[str]()
        rows = {row: Ref(names[number]) for number, row in enumerate(wiring.parameters)}
        inside: list[GraphNode] = []
        for place in range(wiring.period):
            slots = zip(*(flow.operands[first + place] for first in starts), strict=True)
            refs = iter([slot[0] if slot[0].name in own else rows[slot] for slot in slots])
            node = flow.nodes[wiring.start + place]
            inside.append(with_refs(node, lambda _, refs=refs: next(refs)))  # type: ignore[misc]
            own.add(node.name)
        outputs, values = (
            tuple(made_by(flow, wiring.start, inner) for inner in some)
            for some in (wiring.outputs, [inner for _, inner in wiring.changed])
        )
        changed = [Ref(names[number]) for number, _ in wiring.changed]
        made = self.rolled(_Piece(tuple(inside), outputs, values), changed)
        specs = tuple(self.specs[Ref(names[number])] for number in order)
        stored = sum(Ref(spec.name) in self._stored for spec in specs)
        return Body(made.nodes, (*made.results, *made.values), specs, stored)

    def _free(self, name: str) -> str:
        found = free_name(name, self._taken)
        self._taken.add(found)
        return found


def _common_name(row: Sequence[Ref]) -> str:
    """``layers.n.weight`` for the weights of layers 0, 1, ...; else the first name."""
    first, *others = (ref.name.split(".") for ref in row)
    parts = [
        part if all(len(o) == len(first) and o[place] == part for o in others) else "n"
        for place, part in enumerate(first)
    ]
    return ".".join(parts) if len(first) > 1 else f"{first[0]}_each"
