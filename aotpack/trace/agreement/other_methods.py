"""The methods of a package share tensors alone: none may need what another leaves in Python.

A method that leaves Python values behind is followed by each other method, on its example inputs
and on others: with these values, and without them, as in a package. The results must agree. Where
the second method leaves other values in its turn, a third one follows. What all methods make
alike, such as tables and masks, changes nothing and is accepted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.trace.agreement.attributes import (
    Attributes,
    Change,
    is_alike,
    storage_of,
    tensors_in,
)
from aotpack.trace.agreement.exported import AnotherFunction
from aotpack.trace.agreement.reads import Reads
from aotpack.trace.agreement.second_call import (
    departures_in_turn,
    disagreement,
    drawing_alike,
    is_watched,
)
from aotpack.trace.agreement.words import ADVICE, row
from aotpack.trace.eager import Call, Tensors, run_in_turn
from aotpack.trace.host.values import shown
from aotpack.trace.methods import root_of

_LONGEST = 3


def check_other_methods(package: str, calls: Mapping[str, Call]) -> None:
    """Refuse methods of which one needs what another leaves in Python."""
    if len(calls) > 1:
        roots = {name: root_of(call.module) for name, call in calls.items()}
        is_one = len({id(root) for root in roots.values()}) == 1
        before = Attributes({"" if is_one else name: root for name, root in roots.items()})
        _Methods(package, calls, before).check()


@dataclass(frozen=True, slots=True)
class _Run:
    """Calls that ran in turn: by path, what stood in Python before the last one, and after it."""

    results: Tensors
    left: Mapping[str, Change]
    after: Mapping[str, Change]
    read: frozenset[str]
    error: str


@dataclass(frozen=True, slots=True)
class _Methods:
    package: str
    calls: Mapping[str, Call]
    before: Attributes

    def check(self) -> None:
        leaving = [name for name, call in self.calls.items() if self._run([call]).after]
        for name in leaving:
            self._check_after([name])
        if leaving:
            self._check_rounds()

    def _check_rounds(self) -> None:
        """Check more calls in turn: each method twice, then all in order, and back."""
        names = [*self.calls]
        order = [*(name for name in names for _ in range(2)), *names, *reversed(names)]
        calls = [self.calls[name] for name in order]
        calls[1::2] = [call.turned() for call in calls[1::2]]
        for number, how, lost in departures_in_turn(calls, self.before):
            name = order[number - 1]
            earlier = [one for one in dict.fromkeys(order[: number - 1]) if one != name]
            raise self._refusal(earlier, name, how, lost)

    def _check_after(self, names: list[str]) -> None:
        """Check each method after the named ones, and what follows where it leaves other values."""
        earlier = [self.calls[name] for name in names]
        for name, call in self.calls.items():
            if [name] == names:  # its second call has been checked
                continue
            kept = [self._checked(names, name, [*earlier, call])]
            kept += [self._checked(names, name, [*earlier, call.turned()])]
            if len(names) + 1 < _LONGEST and any(self._leaves_other(one, call) for one in kept):
                self._check_after([*names, name])

    def _checked(self, names: list[str], name: str, calls: list[Call]) -> _Run:
        """What the last call sees and leaves; refused if it needs what those before left."""
        kept, packaged = self._run(calls), self._run(calls, keeps=False)
        if packaged.error:
            return kept
        how = f"it fails: {kept.error}" if kept.error else ""
        how = how or disagreement(calls[-1], kept.results, packaged.results, "a package")
        read = [path for path in kept.left if path in kept.read]
        if not how and len(calls) == 2 and self._depends_on_inputs(calls[0], kept, read):
            how = f"it reads what {names[0]} makes of its inputs"
        if how:
            lost = [kept.left[path] for path in read or kept.left]
            raise self._refusal(names, name, how, lost)
        return kept

    def _depends_on_inputs(self, call: Call, kept: _Run, read: Sequence[str]) -> bool:
        """True if each call replaces what was read, and makes it of its inputs."""
        if not read:
            return False
        twice, other = self._run([call, call]), self._run([call.turned()])
        return any(
            path in twice.after
            and twice.after[path].after is not twice.left[path].after
            and not (_has_floats(call) and _is_alike_at(path, kept.left, other.after))
            for path in read
        )

    def _leaves_other(self, kept: _Run, call: Call) -> bool:
        """True if what was left before changes what the call leaves."""
        wanted = {**kept.left, **self._run([call]).after}
        return wanted.keys() != kept.after.keys() or not all(
            _is_alike_at(path, wanted, kept.after) for path in wanted
        )

    def _run(self, calls: Sequence[Call], *, keeps: bool = True) -> _Run:
        """The calls in turn; without ``keeps``, Python values are as before for each."""
        results: Tensors = []
        left: list[Change] = []
        reads, error = Reads(), ""

        @contextmanager
        def between() -> Iterator[None]:
            if not keeps:
                self.before.restore()
            left[:] = self.before.changes()
            reads.storages.clear()
            with reads if keeps and is_watched(calls[-1]) else nullcontext():
                yield

        try:
            with drawing_alike():
                results = run_in_turn(calls, between)[-1]
        except TraceError as failure:
            error = str(failure).partition(": ")[2]
        after = self.before.changes()
        self.before.restore()
        seen = reads.storages - self.before.storages()
        read = [
            one.path for one in left if any(storage_of(x) in seen for x in tensors_in(one.after))
        ]
        return _Run(results, _by_path(left), _by_path(after), frozenset(read), error)

    def _refusal(
        self, names: Sequence[str], name: str, how: str, lost: Sequence[Change]
    ) -> AnotherFunction:
        earlier, they = " and ".join(names), " or ".join(names)
        rows = shown(list(dict.fromkeys(row(one, they) for one in lost)))
        leave = "leaves" if len(names) == 1 else "leave"
        return AnotherFunction(
            f"tracing {self.package}: the method {name} needs what {earlier} {leave} in Python, "
            f"which a package does not keep: after {earlier}, {how}\n  {rows}\n{ADVICE}. Or "
            f"return the value from {they}, and pass it to {name} as an argument."
        )


def _by_path(changes: Sequence[Change]) -> dict[str, Change]:
    return {one.path: one for one in changes}


def _has_floats(call: Call) -> bool:
    """True if other inputs can be made of its example's."""
    leaves = pytree.tree_leaves(call.example)
    return any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in leaves)


def _is_alike_at(path: str, one: Mapping[str, Change], other: Mapping[str, Change]) -> bool:
    return path in one and path in other and is_alike(one[path].after, other[path].after)
