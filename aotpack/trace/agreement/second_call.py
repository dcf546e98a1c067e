"""A package keeps tensors alone from call to call: the model must need no more than these.

Where a call leaves other Python values behind than it found, eager calls twice: with what the first
call left, and with the Python values of before, as a package has them. The second results must
agree, and the second call must not read a tensor that the first one left and then replace it: that
one shows state whose values do not matter on the example inputs. What a model keeps for speed
alone, such as tables and masks, changes nothing and is accepted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch.fx import GraphModule

from aotpack.errors import TraceError
from aotpack.stages import Signature
from aotpack.trace.agreement.attributes import PARTS, Attributes, Change, storage_of, tensors_in
from aotpack.trace.agreement.exported import AnotherFunction
from aotpack.trace.agreement.reads import Reads
from aotpack.trace.agreement.values import difference
from aotpack.trace.agreement.words import ADVICE, row
from aotpack.trace.agreement.writes import UncountedViews
from aotpack.trace.changes import named_tensors
from aotpack.trace.diagnostics.lines import UsersLines, at_line
from aotpack.trace.eager import BetweenCalls, Call, Tensors, run_in_turn
from aotpack.trace.host.values import shown

_LATER = 3  # pairs of calls in turn


def run_once(call: Call) -> Tensors:
    """The results; a model whose next call would need what this one leaves is refused."""
    signature = call.signature
    before, tensors = Attributes({"": call.module}), named_tensors(call.module)
    known = {storage_of(tensors[name]) for name in signature.updates if name in tensors}
    try:
        with UncountedViews(), UsersLines() as lines:
            results = call.run()
        changes = before.changes()
        lost = [one for one in changes if _is_lost(one, signature)]
        lost += [one for one in before.writes() if storage_of(one.after) not in known]
    finally:
        before.restore()
    if lost:
        raise _refusal(signature, "a package would leave it as it was", lost, lines.found)
    if changes:
        _SecondCall(call, before, lines.found).check()
    return results


def _is_lost(change: Change, signature: Signature) -> bool:
    """True for other memory of a tensor, and for other values of what an export takes for state."""
    if change.kind == "memory":
        return True
    pair = change.before, change.after
    if change.path not in signature.updates or not all(isinstance(x, torch.Tensor) for x in pair):
        return False
    return difference(*pair) is not None


@dataclass(frozen=True, slots=True)
class _SecondCall:
    call: Call
    before: Attributes
    lines: Mapping[str, str]  # that assign parts of modules

    def check(self) -> None:
        """Refuse the model if its second call needs what the first one left in Python.

        Other inputs show what depends on those of the first call; some models take the example's
        alone.
        """
        self._check(self.call, is_example=True)
        self._check(self.call.turned(), is_example=False)
        self._check_later()

    def _check(self, second: Call, *, is_example: bool) -> None:
        left = self._left(second)
        try:
            found = self._results(self._as_packaged, second)
        except TraceError:
            if is_example:
                raise
            return
        how = left.error or disagreement(second, left.results, found, "a package's second call")
        lasting = [one for one in left.changes if one.path in left.again]
        if not how and any(one.path in left.read for one in lasting):
            lasting = [one for one in lasting if one.path in left.read]
            how = "the second call reads what the first one left there, and replaces it"
        elif how:
            lasting += [one for one in left.changes if one.path not in left.again]
        if how:
            raise _refusal(self.call.signature, how, lasting, self.lines)

    def _check_later(self) -> None:
        """Refuse the model if a later call needs what those before left: a history, a count."""
        calls = [self.call, self.call.turned()] * _LATER
        for number, how, changes in departures_in_turn(calls, self.before):
            raise _refusal(self.call.signature, f"at call {number} {how}", changes, self.lines)

    def _left(self, second: Call) -> "_Left":
        left = _Left()

        @contextmanager
        def between() -> Iterator[None]:
            left.changes = self.before.changes()
            middle, reads = Attributes({"": self.call.module}), Reads()
            with reads if is_watched(second) else nullcontext():
                yield
            left.note(middle, reads.storages - self.before.storages())

        try:
            left.results = self._results(between, second)
        except TraceError as error:
            left.error = f"the second call fails: {str(error).partition(': ')[2]}"
        return left

    @contextmanager
    def _as_packaged(self) -> Iterator[None]:
        self.before.restore()
        yield

    def _results(self, between: BetweenCalls, second: Call) -> Tensors:
        try:
            with drawing_alike():
                return run_in_turn([self.call, second], between)[-1]
        finally:
            self.before.restore()


def departures_in_turn(
    calls: Sequence[Call], before: Attributes
) -> Iterator[tuple[int, str, list[Change]]]:
    """The calls, from 1 on, that need what those before left in Python; how; what was left."""
    left, kept = _in_turn(calls, before, keeps=True)
    _, packaged = _in_turn(calls, before, keeps=False)
    for number, (wanted, found) in enumerate(zip(kept, packaged, strict=False)):
        how = disagreement(calls[number], wanted, found, "a package")
        if how:
            yield number + 1, how, left[number - 1]


def _in_turn(
    calls: Sequence[Call], before: Attributes, *, keeps: bool
) -> tuple[list[list[Change]], list[Tensors]]:
    """What each call leaves, and the results of all; none if one fails."""
    left: list[list[Change]] = []

    @contextmanager
    def between() -> Iterator[None]:
        left.append(before.changes())
        if not keeps:
            before.restore()
        yield

    try:
        with drawing_alike():
            return left, run_in_turn(calls, between)
    except TraceError:
        return left, []
    finally:
        before.restore()


def is_watched(call: Call) -> bool:
    """False for branches and loops: torch compiles them, and a mode with them."""
    parts = call.program.graph_module.modules()
    return sum(isinstance(one, GraphModule) for one in parts) == 1


@contextmanager
def drawing_alike() -> Iterator[None]:
    """Runs in this block draw the same random numbers, and leave torch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def run_apart(call: Call, surroundings: AbstractContextManager[None]) -> Tensors:
    """The results of eager in other surroundings; what it leaves in Python is put back."""
    before = Attributes({"": call.module})
    try:
        with drawing_alike(), surroundings:
            return call.run()
    finally:
        before.restore()


def disagreement(
    call: Call, wanted: Sequence[torch.Tensor], found: Sequence[torch.Tensor], where: str
) -> str:
    """How the results of a call depart where it does not see what Python kept; "" if they agree."""
    if len(wanted) != len(found):
        return f"the model returns {len(wanted)} tensors there, {where} {len(found)}"
    names = [*(spec.name for spec in call.signature.outputs), *call.signature.updates]
    how = zip(names, map(difference, wanted, found), strict=True)
    told = [f"{name} {one}" for name, one in how if one]
    return f"in {where} {'; '.join(told)}" if told else ""


class _Left:
    """What a first call left, and what the second made of it."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.again: set[str] = set()
        self.read: set[str] = set()
        self.results: Tensors = []
        self.error = ""

    def note(self, middle: Attributes, storages: set[int]) -> None:
        """What changed again since ``middle``, and where the tensors stood that were read."""
        self.again = {one.path for one in middle.changes()}
        for one in self.changes:
            if any(storage_of(tensor) in storages for tensor in tensors_in(one.after)):
                self.read.add(one.path)


def _refusal(
    signature: Signature, how: str, changes: Sequence[Change], lines: Mapping[str, str]
) -> AnotherFunction:
    told = (f"{row(one)}{at_line(lines, _part(one))}" for one in changes)
    rows = shown(list(dict.fromkeys(told)))
    return AnotherFunction(
        f"tracing {signature.name}: forward leaves the model other than it found it: {how}\n"
        f"  {rows}\n{ADVICE}."
    )


def _part(change: Change) -> str:
    """The name of the part of a module that is another one; "" for other changes."""
    return change.path.rpartition(".")[2] if change.kind in PARTS else ""
