"""Bodies that several calls share: scheduled once, by the same passes as a program.

What a body computes from its weights alone is computed once for each call, in the weight program
around, by a call of the body's own weight program. Its packed weights are packed for each call.

    y1 = body(x, w1), where d = f(w), y = g(x, d)    ->    once: d1 = f(w1); d2 = f(w2)
    y2 = body(y1, w2)                                      y1 = body(x, d1); y2 = body(y1, d2)
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.names import free_name
from aotpack.ir.packs import Packs
from aotpack.ir.program import Call, Operation, PackedWeight, Program, reads
from aotpack.schedule.draft import Draft

Parts = dict[str, tuple[Schedule, ...]]
"""The schedules inside of each operation with parts, by its first target."""


class Bodies:
    """The bodies of a draft's calls, and what the calls add to its program."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._made: dict[int, tuple[Schedule, Schedule]] = {}  # complete, and without weights
        self._buffers = dict(draft.program.buffers)
        self._packed: dict[tuple[str, ...], PackedWeight] = {}
        self._derived: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._weight_calls: list[Call] = []
        self.parts: Parts = {}

    def scheduled(self, call: Call, calls: Iterable[Call]) -> Call:
        """The call of the scheduled body; ``calls`` are all that have this one."""
        if id(call.body) not in self._made:
            self._made[id(call.body)] = self._planned(call.body, [one.given for one in calls])
        whole, plain = self._made[id(call.body)]
        given = {**call.given, **self._packs(whole, call), **self._weights(whole, call)}
        names = (*plain.program.inputs, *plain.program.weights)
        self.parts[call.targets[0]] = (plain,)
        return replace(call, arguments=tuple(map(given.__getitem__, names)), body=plain.program)

    def program(self, operations: tuple[Operation, ...]) -> Program:
        """The program of these operations, with the weights of their calls."""
        old, before = self._draft.program, self._draft.program.weight_program
        derived = tuple(name for names in self._derived.values() for name in names)
        packed = tuple(self._packed.values())
        weights = (*old.weights, *(one.name for one in packed), *derived)
        new = replace(
            old,
            operations=operations,
            buffers=self._buffers,
            weights=weights,
            packed=(*old.packed, *packed),
        )
        if not self._weight_calls:
            return new
        written = (*(before.operations if before else ()), *self._weight_calls)
        outputs = (*(before.outputs if before else ()), *derived)
        read = {name for operation in written for name in reads(operation)}
        stored = tuple(name for name in old.weights if name in read and name not in outputs)
        known = {**self._buffers, **(before.buffers if before else {})}
        kept = {*stored, *outputs, *(before.buffers if before else ())}
        buffers = {name: known[name] for name in known if name in kept}
        return replace(new, weight_program=Program((), buffers, (), stored, written, outputs))

    def _planned(self, body: Program, calls: list[dict[str, str]]) -> tuple[Schedule, Schedule]:
        """The schedule of a body: complete, and without its weight program."""
        draft, options = self._draft, self._draft.options
        outer = options.calls or ({},)
        named = [
            {own: around.get(name, name) for own, name in call.items()}
            for around in outer
            for call in calls
        ]
        packs: Packs = (*options.packed, *(self._packed))
        taken = {name for pack in self._packed for name in pack}
        changed = options.state | taken
        state = {own for call in named for own, name in call.items() if name in changed}
        state |= {own for call in calls for own, name in call.items() if name in changed}
        own = replace(options, state=frozenset(state), packed=packs, calls=tuple(named))
        part = f"body of {len(calls)} calls" + (draft.part and f", {draft.part}")
        whole = replace(draft, program=body, parts={}, options=own, part=part).prepared().planned()
        return whole, _plain(whole)

    def _packs(self, whole: Schedule, call: Call) -> Mapping[str, str]:
        """The packed weights of a call, for those of the body."""
        found: dict[str, str] = {}
        for packed in whole.program.packed:
            parts = tuple(call.given[name] for name in packed.parts)
            if parts not in self._packed:
                name = self._declared(packed.name, whole.program)
                self._packed[parts] = PackedWeight(name, parts)
            found[packed.name] = self._packed[parts].name
        return found

    def _weights(self, whole: Schedule, call: Call) -> Mapping[str, str]:
        """The derived weights of a call, for those of the body; equal calls share them."""
        made = whole.weights
        if made is None:
            return {}
        arguments = tuple(call.given[name] for name in made.program.weights)
        key = id(call.body), arguments
        if key not in self._derived:
            names = tuple(self._declared(name, whole.program) for name in made.program.outputs)
            self._derived[key] = names
            origin = replace(call.origin, ops=())
            self._weight_calls.append(Call(names, arguments, made.program, origin))
            self.parts[names[0]] = (made,)
        return dict(zip(made.program.outputs, self._derived[key], strict=True))

    def _declared(self, name: str, body: Program) -> str:
        """A new buffer like one of a body."""
        new = free_name(name, self._buffers)
        self._buffers[new] = replace(body.buffers[name], name=new)
        return new


def _plain(whole: Schedule) -> Schedule:
    """A body's schedule without its weight program: what that makes is given."""
    old = whole.program
    read = {name for operation in old.operations for name in reads(operation)}
    weights = tuple(name for name in old.weights if name in read)
    unread = {*old.weights} - read
    buffers = {name: one for name, one in old.buffers.items() if name not in unread}
    program = replace(old, weights=weights, buffers=buffers, packed=(), weight_program=None)
    strides = {name: one for name, one in whole.strides.items() if name in buffers}
    given = {name: strides[name] for name in old.derived if name in buffers}
    return replace(whole, program=program, strides=strides, given=given, weights=None)
