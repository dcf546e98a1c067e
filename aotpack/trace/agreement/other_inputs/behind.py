"""Conditions on sizes that a model asks for only where another size is 1.

torch.export takes each dynamic size for 2 or more: of ``x.shape[0] == 1 and x.shape[1] > 512`` it
never sees the second condition. So where a condition has another answer for sizes of 1, the model
runs once more on symbolic sizes, with these as 1, and what it asks for then is known too. Each
condition is turned: sizes are sought for which those before it keep their answers and it does not,
and the model runs for these (concolic testing: Godefroid et al., DART, 2005).
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any, TypeAlias

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.trace.agreement.attributes import Attributes
from aotpack.trace.agreement.other_inputs.turned import points_of
from aotpack.trace.agreement.surroundings import without_caches
from aotpack.trace.capture import quiet_inference, replaced_functions
from aotpack.trace.changes import kept, named_tensors
from aotpack.trace.diagnostics.asked.branches import Branches
from aotpack.trace.diagnostics.asked.questions import Branch, Equal, Squeezed
from aotpack.trace.diagnostics.assumed import compiled_condition
from aotpack.trace.diagnostics.complaint import users_line
from aotpack.trace.diagnostics.multiples import holds
from aotpack.trace.eager import Call, compiled_anew, in_program_order
from aotpack.trace.methods import root_of
from aotpack.trace.source import shown_frame

Values: TypeAlias = Mapping[str, int]  # of sizes, by name
Resized: TypeAlias = Callable[[Values], Call]
_SCANNED = 4096  # sizes of one range
_NEAR = 16  # small sizes of two ranges
_FAR = 2**21  # sizes of several ranges together
_MOST_NAMES = 4  # of a condition, that may be 1 together
_MOST_RUNS = 24
_FIXED = 32  # sizes tried for one of which the model makes a plain number


@dataclass(frozen=True, slots=True)
class Asked:
    """A condition with its answer; ``sizes`` are by torch's symbol."""

    branch: Branch
    code: CodeType | None
    sizes: Mapping[str, Int]

    @staticmethod
    def of(branch: Branch, sizes: Mapping[str, Int]) -> "Asked":
        condition = branch.condition
        read = {str(one) for one in getattr(condition, "free_symbols", ())}
        code = compiled_condition(condition) if read <= {*sizes} else None
        return Asked(branch, code, {one: sizes[one] for one in sorted(read & {*sizes})})

    @property
    def names(self) -> set[str]:
        """The sizes that decide the condition."""
        return set[str]().union(*map(_names, self.sizes.values()))

    def holds(self, values: Values) -> bool:
        """Whether the answer is right; True for a condition of other numbers than sizes."""
        if self.code is None:
            return True
        given = {one: size.evaluate(values) for one, size in self.sizes.items()}
        return holds(self.code, given) == self.branch.answer


def hidden_cases(
    call: Call,
    known: Sequence[Asked],
    example: Values,
    enlarged: Callable[[Values], Values],
    resized: Resized,
    starts: Iterable[Values],
) -> Iterator[Values]:
    """Sizes at which conditions that only sizes of 1 open have another answer than beside them.

    The conditions that are ``known`` were asked with all sizes of 2 or more. ``resized`` gives the
    call for sizes, and ``enlarged`` large ones beside those of 1. At the sizes ``starts`` a known
    condition on several has another answer, which opens conditions too.
    """
    sizes = call.signature.sizes
    sets = dict.fromkeys(_opening(known, sizes, example))
    waiting = deque[Values]({**example, **dict.fromkeys(sorted(ones), 1)} for ones in sets)
    for one in known:
        if isinstance(one.branch.asked, Squeezed):
            waiting.extend(_turned(one, (), sizes, example)[:1])
    waiting.extend(one for one in starts if 1 not in one.values())
    plain, seen = cache(lambda: _run(resized(example))), set()
    for _ in range(_MOST_RUNS):
        if not waiting:
            return
        values = waiting.popleft()
        yield values
        asked, fixed = _seen(resized(values), values, plain)
        for name in fixed:
            (size,) = (one for one in sizes if one.name == name)
            numbers = (*range(size.low, min(size.high + 1, size.low + _FIXED)), size.high)
            yield from ({**values, name: number} for number in numbers)
        for place, one in enumerate(asked):
            path = tuple((str(x.branch.condition), x.branch.answer) for x in asked[: place + 1])
            others = _turned(one, asked[:place], sizes, values)
            if path not in seen and others:
                seen.add(path)
                yield from others
                waiting.append(others[0])
        yield enlarged(values)


def _seen(call: Call, values: Values, plain: Callable[[], "_Run"]) -> tuple[list[Asked], list[str]]:
    """What a run asks for; refused where it cannot be seen and the model runs for these sizes.

    ``plain`` gives the run on the example's sizes: what hides there, too, says nothing of these.
    """
    run = _run(call)
    hides = ""
    if run.numbers or run.error:
        if own := [line for line in run.numbers if line not in plain().numbers]:
            hides = "\n  at ".join(
                ["makes a plain number of a size, as int() and range() do", *own]
            )
        elif run.error and not plain().error:
            hides = run.error
    if hides and _runs(call):
        case = ", ".join(f"{name}={value}" for name, value in values.items())
        raise TraceError(
            f"exporting {call.signature.name}: where {case}, the model takes another way than "
            f"torch.export saw, and {hides}\nGive the dimension a range from 2 on, or change what "
            "the model does for a size of 1."
        )
    return run.asked, run.fixed


def _runs(call: Call) -> bool:
    try:
        call.run()
    except TraceError:
        return False
    return True


def _opening(
    known: Iterable[Asked], sizes: Sequence[Var], example: Values
) -> Iterator[frozenset[str]]:
    """The least sets of sizes that give a condition another answer where they are 1."""
    may_be = [size.name for size in sizes if size.low == 1]
    for one in known:
        names = [name for name in may_be if name in one.names][:_MOST_NAMES]
        found: list[frozenset[str]] = []
        for count in range(1, len(names) + 1):
            for some in map(frozenset, itertools.combinations(names, count)):
                is_least = not any(fewer <= some for fewer in found)
                cases = _beside(one.names, some, sizes, example)
                if is_least and not all(map(one.holds, cases)):
                    found.append(some)
        yield from found


def _beside(
    names: set[str], ones: frozenset[str], sizes: Sequence[Var], example: Values
) -> Iterator[Values]:
    """Small and large sizes, and the example's; exactly ``ones`` are 1."""
    tried = []
    for size in sizes:
        low = max(2, size.low)
        near = {*range(low, low + 3), example[size.name], min(size.high, _SCANNED)}
        some = sorted(number for number in near if low <= number <= size.high)
        is_free = size.name in names and size.name not in ones
        tried.append(some if is_free else [1 if size.name in ones else example[size.name]])
    for numbers in itertools.islice(itertools.product(*tried), _SCANNED):
        yield {size.name: number for size, number in zip(sizes, numbers, strict=True)}


def _turned(
    one: Asked, before: Sequence[Asked], sizes: Sequence[Var], values: Values
) -> list[Values]:
    """The first and last sizes for which a condition alone has another answer; sizes of 1 stay."""
    names = one.names.union(*(other.names for other in before))
    free = [size for size in sizes if size.name in names and values[size.name] > 1]
    lines = [
        [{**values, size.name: number} for number in _first(size, _SCANNED)]
        for size in free
        if size.name in one.names
    ]
    for first, second in itertools.combinations(free, 2):
        pairs = itertools.product(_first(first, _NEAR), _first(second, _NEAR))
        lines.append([{**values, first.name: a, second.name: b} for a, b in pairs])

    def is_turned(case: Values) -> bool:
        return not one.holds(case) and all(other.holds(case) for other in before)

    for line in lines:
        found = next(filter(is_turned, line), None)
        if found is not None:
            return [found, next(filter(is_turned, reversed(line)))]
    return [*itertools.islice(filter(is_turned, _far(one, before, values)), 1)]


def _far(one: Asked, before: Sequence[Asked], values: Values) -> Iterator[Values]:
    """Some of all sizes at which a condition has another answer, and those before it their own."""
    ranges: dict[Any, Var] = {}
    wanted = sympy.true
    for other in (one, *before):
        symbols: set[Any] = getattr(other.branch.condition, "free_symbols", set())
        sizes = {symbol: other.sizes.get(str(symbol)) for symbol in symbols}
        plain = {s: n for s, size in sizes.items() for n in _plain(size)}
        if {*plain} == {*symbols}:
            ranges |= plain
            assumed = other.branch.assumed
            wanted = sympy.And(wanted, sympy.Not(assumed) if other is one else assumed)
    points = points_of(wanted, ranges, _FAR) if len(ranges) > 1 else None
    if points is not None:
        columns = {ranges[symbol].name: numbers.tolist() for symbol, numbers in points.items()}
        for numbers in itertools.islice(zip(*columns.values(), strict=True), _SCANNED):
            yield {**values, **dict(zip(columns, numbers, strict=True))}


def _plain(size: Int | None) -> Iterator[Var]:
    """A size that is declared itself, as no other follows from it."""
    for leaf in () if size is None else size.leaves():
        if isinstance(leaf, Var) and Int.of(leaf) is size:
            yield leaf


def _first(size: Var, count: int) -> range:
    return range(size.low, min(size.high + 1, size.low + count))


def _names(size: Int) -> set[str]:
    return {leaf.name for leaf in size.leaves() if isinstance(leaf, Var)}


@dataclass(frozen=True, slots=True)
class _Run:
    """What a run on symbolic sizes shows: conditions, and sizes that became numbers.

    ``numbers`` are lines that make plain numbers of sizes: as the ``error`` that ended the run, in
    words, they hide conditions behind them.
    """

    asked: list[Asked]
    fixed: list[str]
    numbers: list[str]
    error: str


def _run(call: Call) -> _Run:
    """The model on symbolic sizes; those of 1 are numbers."""
    environment = ShapeEnv(
        duck_shape=False, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True
    )
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    (args, kwargs), by_symbol = _symbolic(call, mode)
    failed = ""
    before = Attributes({"": call.module})
    try:
        with (
            without_caches([root_of(call.module)]),
            before.values_kept(call.module),
            kept(_state(call)),  # what follows a branch or loop is written to tensors themselves
            quiet_inference(),
            replaced_functions(),
            Branches() as branches,
            mode,
            compiled_anew(call.program),
        ):
            call.module(*args, **kwargs)
    except (Exception, SystemExit) as error:
        told = f"raises there, where sizes are symbols, {type(error).__name__}: {error}"
        failed = "\n  at ".join([told, *users_line(error)])
    finally:
        before.restore()
    fixed = [size for one, size in by_symbol.items() if environment.replace(one).is_Integer]
    named = {str(one): size for one, size in by_symbol.items()}
    values = {one: environment.replace(one) for one in by_symbol if one.is_Symbol}
    learned = [Equal(*pair) for pair in values.items() if pair[1].free_symbols - {pair[0]}]
    known = [Branch(one, answer=True, code=_run.__code__) for one in learned]
    asked = [Asked.of(branch, named) for branch in (*known, *branches.noted)]
    lines = [*dict.fromkeys(map(shown_frame, branches.numbers.values()))]
    return _Run(asked, sorted(set[str]().union(*map(_names, fixed))), lines, failed)


def _state(call: Call) -> list[torch.Tensor]:
    """What a call may change: buffers, and parameters that the program changes."""
    tensors = named_tensors(call.module)
    changed = [tensors[one] for one in call.signature.updates if one in tensors]
    return [*{id(one): one for one in (*call.module.buffers(), *changed)}.values()]


def _symbolic(call: Call, mode: FakeTensorMode) -> tuple[Any, Mapping[Any, Int]]:
    """The inputs as fake tensors, and their sizes by symbol."""
    specs, leaves = iter(call.signature.inputs), list[Any]()
    by_symbol: dict[Any, Int] = {}
    for leaf in in_program_order(call.program, *call.example):
        if isinstance(leaf, torch.Tensor):
            sizes = next(specs).shape[: leaf.dim()]
            kinds = [DimDynamic.DYNAMIC if _names(size) else DimDynamic.STATIC for size in sizes]
            leaf = mode.from_tensor(
                leaf, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds)
            )
            for size, theirs in zip(sizes, leaf.shape, strict=True):
                if isinstance(theirs, torch.SymInt):
                    by_symbol[theirs.node.expr] = size
        leaves.append(leaf)
    return pytree.tree_unflatten(leaves, call.program.call_spec.in_spec), by_symbol
