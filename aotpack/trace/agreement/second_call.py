"""A package keeps tensors alone from call to call: the model must need no more than these.

Where a call leaves other Python values behind than it found, eager calls twice: with what the first
call left, and with the Python values of before, as a package has them. The second results must
agree, and the second call must not read a tensor that the first one left and then replace it: that
one shows state whose values do not matter on the example inputs. What a model keeps for speed
alone, such as tables and masks, changes nothing and is accepted.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.stages import Signature
from aotpack.trace.agreement.attributes import (
    ABSENT,
    Attributes,
    Change,
    storage_of,
    tensors_in,
)
from aotpack.trace.agreement.exported import AnotherFunction
from aotpack.trace.agreement.values import difference
from aotpack.trace.changes import named_tensors
from aotpack.trace.eager import Tensors, run_again, run_eagerly
from aotpack.trace.host.values import shown
from aotpack.trace.operators.random import Example

_VALUES = frozenset(
    "__setitem__ __bool__ __int__ __float__ __index__ __contains__ item tolist equal".split()
)
_ADVICE = "A package keeps tensors that forward changes in place, and no other values"


def run_once(
    module: nn.Module, program: ExportedProgram, example: Example, signature: Signature
) -> Tensors:
    """``run_eagerly``; a model whose next call would need what this one leaves is refused."""
    before, tensors = Attributes(module), named_tensors(module)
    known = {storage_of(tensors[name]) for name in signature.updates if name in tensors}
    try:
        results = run_eagerly(module, program, example, signature)
        changes = before.changes()
        lost = [one for one in changes if _is_lost(one, signature)]
        lost += [one for one in before.writes() if storage_of(one.after) not in known]
    finally:
        before.restore()
    if lost:
        raise _refusal(signature, "a package would not", lost)
    if changes:
        _SecondCall(module, program, example, signature, before).check()
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
    module: nn.Module
    program: ExportedProgram
    example: Example
    signature: Signature
    before: Attributes

    def check(self) -> None:
        """Refuse the model if its second call needs what the first one left in Python.

        Other inputs show what depends on those of the first call; some models take the example's
        alone.
        """
        for second in (self.example, _turned(self.example)):
            self._check(second, is_example=second is self.example)

    def _check(self, second: Example, *, is_example: bool) -> None:
        left = self._left(second)
        try:
            found = self._results(self._as_packaged, second)
        except TraceError:
            if is_example:
                raise
            return
        how = left.error or self._difference(left.results, found)
        lasting = [one for one in left.changes if one.path in left.again]
        if not how and any(one.path in left.read for one in lasting):
            lasting = [one for one in lasting if one.path in left.read]
            how = "the second call reads what the first one left there, and replaces it"
        if how:
            raise _refusal(self.signature, how, lasting or left.changes)

    def _left(self, second: Example) -> "_Left":
        left = _Left()

        @contextmanager
        def between() -> Iterator[None]:
            left.changes = self.before.changes()
            middle, reads = Attributes(self.module), _Reads()
            with reads if self._is_watched() else nullcontext():
                yield
            left.note(middle, reads.storages - self.before.storages())

        try:
            left.results = self._results(between, second)
        except TraceError as error:
            left.error = f"the second call fails: {str(error).partition(': ')[2]}"
        return left

    def _is_watched(self) -> bool:
        """False for branches and loops: torch compiles them, and a mode with them."""
        parts = [one for one in self.program.graph_module.modules() if isinstance(one, GraphModule)]
        return len(parts) == 1

    @contextmanager
    def _as_packaged(self) -> Iterator[None]:
        self.before.restore()
        yield

    def _results(
        self, between: Callable[[], AbstractContextManager[None]], second: Example
    ) -> Tensors:
        given = self.module, self.program, self.example, self.signature
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                return run_again(*given, between, second)
        finally:
            self.before.restore()

    def _difference(self, wanted: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> str:
        if len(wanted) != len(found):
            return f"the second call returns {len(wanted)} tensors, a package's {len(found)}"
        names = [*(spec.name for spec in self.signature.outputs), *self.signature.updates]
        how = zip(names, map(difference, wanted, found), strict=True)
        told = [f"{name} {one}" for name, one in how if one]
        return f"in a package's second call {'; '.join(told)}" if told else ""


def _turned(example: Example) -> Example:
    """The same floating-point elements in the opposite order: what they may be, they still are."""

    def turn(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return x
        return x.flatten().flip(0).reshape(x.shape)

    turned: Example = pytree.tree_map(turn, example)
    return turned


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


class _Reads(TorchFunctionMode):
    """Inside the block, the memories whose values functions are given are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: set[int] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if _reads(getattr(func, "__name__", ""), result):
            given = pytree.tree_leaves((args, kwargs))
            self.storages.update(storage_of(x) for x in given if isinstance(x, torch.Tensor))
        return result


def _reads(name: str, result: Any) -> bool:
    """False for functions that tell or take shapes and types alone."""
    if name.startswith("new_") or name.endswith("_like"):
        return False
    return name in _VALUES or any(True for _ in tensors_in(result))


def _refusal(signature: Signature, how: str, changes: Sequence[Change]) -> AnotherFunction:
    rows = shown(list(dict.fromkeys(map(_row, changes))))
    return AnotherFunction(
        f"tracing {signature.name}: forward leaves the model other than it found it: {how}\n"
        f"  {rows}\n{_ADVICE}."
    )


def _row(change: Change) -> str:
    """What forward changed, and what to write in its place."""
    path, local, before, after = change.path, change.local, change.before, change.after
    what, copy = f"the {change.kind} {path}", f"write self.{local}.copy_(...)"
    buffer = "keep a buffer of fixed size"
    match after:
        case torch.Tensor() if change.kind == "memory":
            return f"forward gives {path} other memory (.data, set_, resize_); {copy}"
        case torch.Tensor() if change.kind == "values":
            return f"forward writes to {path}, and not while it is exported; do it in both"
        case torch.Tensor() if isinstance(before, torch.Tensor):
            return f"forward assigns {what} anew; {copy}"
        case torch.Tensor():
            was = f"forward sets {what}, which was {_told(before)}"
            return f"{was}; {buffer} from the start, and {copy}"
        case bool() | int() | float() if isinstance(before, (bool, int, float)):
            made = f"a buffer of torch.tensor({type(after)(before)!r})"
            return f"forward changes {what} from {before!r} to {after!r}; keep {made}, and {copy}"
        case list() | dict() | set() if isinstance(before, type(after)):
            kind, sizes = type(after).__name__, f"{len(before)} items, then {len(after)}"
            rows = "write its rows with index_copy_"
            return f"forward changes {what}, a {kind} ({sizes}); {buffer} instead, and {rows}"
    told = f"from {_told(before)} to {_told(after)}"
    return f"forward changes {what} {told}; keep tensors in its place"


def _told(value: Any) -> str:
    """A value in few words."""
    if value is ABSENT:
        return "nothing"
    return f"{value!r:.40}" if isinstance(value, (str, type(None))) else f"a {type(value).__name__}"
