"""The first operator of an exported program whose value departs from eager's.

Both are run once more while every operator's results are kept, and the two sequences are aligned
by operator, types and shapes. A build comes here if results depart; it is accepted if they all
depend on numbers that were chosen from rounded floats.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from aotpack.stages import Signature, Source
from aotpack.trace.agreement.dependence import Dependents
from aotpack.trace.agreement.values import difference, shown
from aotpack.trace.eager import run_eagerly, run_exported
from aotpack.trace.operators.random.seeds import Example
from aotpack.trace.source import source_of

_MOST_BYTES = 2**30
_NO_VALUE = ("aten.detach.default", "aten.alias.default", "aten.lift_fresh.default")


@dataclass(frozen=True, slots=True)
class Departure:
    """An operator of the program."""

    operator: str
    source: Source | None
    how: str

    def __str__(self) -> str:
        place = f"\n  at {self.source}" if self.source else ""
        return f"{self.operator}, which {self.how}{place}"


@dataclass(frozen=True, slots=True)
class Departures:
    """The first departure that no rounding explains, and what depends on choices of rounded floats.

    None where the two runs cannot be aligned: too large, or refused by torch's modes.
    """

    first: Departure | None
    excused: Dependents


def departures(
    module: nn.Module, program: ExportedProgram, example: Example, signature: Signature
) -> Departures:
    """Where the exported program departs from eager."""
    eager, exported = _Record(), _Record()
    try:
        with eager:
            run_eagerly(module, program, example, signature)
        with exported:
            run_exported(program, example, signature, _Following(program.graph_module, exported))
    except Exception:  # what torch's modes cannot run leaves the operator unnamed
        return Departures(None, Dependents())
    return _aligned(eager.calls, exported.calls)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with clones of its results; ``node`` is the program's node that made it."""

    operator: str
    results: tuple[torch.Tensor, ...]
    node: fx.Node | None

    @property
    def kind(self) -> tuple[str, ...]:
        return (self.operator, *map(shown, self.results))


class _Record(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside the block, calls are kept in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[_Call] = []
        self.node: fx.Node | None = None
        self._bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        if tensors and str(func) not in _NO_VALUE:
            self._bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            if self._bytes > _MOST_BYTES:
                raise MemoryError("the results of all operators are too large to keep")
            clones = tuple(tensor.clone() for tensor in tensors)
            self.calls.append(_Call(str(func), clones, self.node))
        return result


class _Following(fx.Interpreter):
    """Tells a record which node runs."""

    def __init__(self, module: fx.GraphModule, record: _Record) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self._record = record

    def run_node(self, n: fx.Node) -> Any:
        self._record.node = n
        return super().run_node(n)


def _aligned(eager: Sequence[_Call], exported: Sequence[_Call]) -> Departures:
    """The first calls that differ beyond rounding, or those before them that one run alone has."""
    matcher = SequenceMatcher(None, [c.kind for c in eager], [c.kind for c in exported], False)
    other: Departure | None = None
    is_exact, excused = True, Dependents()
    for step, i, i_end, j, j_end in matcher.get_opcodes():
        if step != "equal":
            other = other or _unpaired(eager[i:i_end], exported[j:j_end], exported[j_end:])
            continue
        for wanted, found in zip(eager[i:i_end], exported[j:j_end], strict=True):
            how = _how(wanted, found)
            if how and found.node not in excused:
                if other or found.node is None or not _is_rounding(found, is_exact):
                    return Departures(other or _departure(found, how), excused)
                excused.add(found.node)
            if not how:
                other = None  # what stood in one run alone made no difference
            is_exact = is_exact and all(map(torch.equal, wanted.results, found.results))
    return Departures(other, excused)


def _how(wanted: _Call, found: _Call) -> str | None:
    return next(filter(None, map(difference, wanted.results, found.results)), None)


def _is_rounding(found: _Call, is_exact: bool) -> bool:
    """True for numbers chosen by floats (an argmax) that differ by rounding."""
    return not is_exact and not any(result.is_floating_point() for result in found.results)


def _unpaired(
    eager: Sequence[_Call], exported: Sequence[_Call], later: Sequence[_Call]
) -> Departure | None:
    if exported:
        how = f"stands where eager runs {eager[0].operator}" if eager else "eager does not run"
        return _departure(exported[0], how)
    return _departure(later[0], f"eager runs after {eager[0].operator}") if later else None


def _departure(call: _Call, how: str) -> Departure:
    operator = call.operator if call.node is None else str(call.node.target)
    source = None if call.node is None else source_of(call.node)
    return Departure(operator, source, how)
