"""Assertions on data: calls go on where they hold, and raise in words where they do not.

Each case has a good input and bad ones; what eager says of an input is what the package says.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan

import aotpack
from aotpack.errors import AotpackError
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.program import targets
from aotpack.lower import lower
from aotpack.pipeline import Build, Source
from aotpack.runtime import AssertionFailed, Model
from aotpack.schedule import schedule

from .oracle import compile_all

Step = Callable[..., Any]
TARGETS = ("cpu", "interpreter")
GOOD = torch.arange(1.0, 13.0).reshape(4, 3)


class Asserting(nn.Module):
    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: torch.Tensor) -> Any:
        return self.step(x)


def bad(*changes: tuple[int, float]) -> torch.Tensor:
    """The good input with elements of its flat form replaced."""
    x = GOOD.clone()
    for place, value in changes:
        x.view(-1)[place] = value
    return x


def positive(x):
    torch._assert_async((x > 0).all(), "all must be positive")
    return x * 2


def as_python_says(x):
    torch._assert(x.sum() > 0, "the sum must be positive")
    return x * 2


def of_a_float(x):
    torch._assert_async(x[:1, 0], "the first must not be zero")
    return x.exp()


def of_a_number(x):
    torch._check((x > 2).sum().item() > 3)
    return x + 1


def of_a_wide_number(x):
    n = x.sum().item()
    torch._check(n * 2.0 - 1 > 10.5)
    return x + 1


def of_all(x):
    torch._check_tensor_all(x > 0, lambda: "all")
    return x + 1


def several(x):
    y = torch.softmax(x, 1)
    torch._assert_async((x > 0).all(), "first")
    torch._assert_async((x < 100).all(), "second")
    torch._assert_async(y.isfinite().all(), "third")
    return y


def between_neighbours(x):
    """What is asserted is computed on the way to the result."""
    rows = x.sum(1, keepdim=True)
    torch._assert_async((rows.abs() > 1e-3).all(), "no row may sum to zero")
    return (x / rows).cumsum(0)


def of_nothing_else(x):
    """Only the assertion needs the product."""
    torch._assert_async((x.t() @ x).diagonal().max() < 1000, "too large")
    return x[:1]


def in_a_branch(x):
    def first(x):
        torch._assert_async((x > -1).all(), "in a branch")
        return x + 1

    return torch.cond(x.sum() > 0, first, lambda x: x - 1, (x,))


def in_both_sides(x):
    def inner(x):
        torch._assert_async(x[0, 0] < 50, "inner")
        return x + 1

    def first(x):
        torch._assert_async(x[0, 1] < 60, "outer")
        return torch.cond(x.max() > 0, inner, lambda x: x * 2, (x,))

    def second(x):
        torch._assert_async(x[0, 2] < 70, "second")
        return x - 1

    return torch.cond(x.sum() > 0, first, second, (x,))


def in_a_loop(x):
    def body(i, y):
        torch._assert_async((y < 40).all(), "in a loop")
        return i + 1, y * 2

    return while_loop(lambda i, y: i < 2, body, (torch.tensor(0), x))[1]


def in_a_map(x):
    def body(row):
        torch._assert_async(row.sum() > 0, "in a map")
        return row * 2

    return map_over(body, x)


def in_a_scan(x):
    def body(state, row):
        torch._assert_async((state < 20).all(), "in a scan")
        return state + row, state * row

    return scan(body, x[0] * 0, x)[1]


@dataclass(frozen=True)
class Case:
    """``fails`` pairs inputs with the words of the assertions that fail on them."""

    step: Step
    fails: tuple[tuple[torch.Tensor, tuple[str, ...]], ...]

    def __str__(self) -> str:
        return self.step.__name__


NAN = float("nan")
CASES = (
    Case(positive, ((bad((7, -1)), ("all must be positive",)), (bad((0, NAN)), ("positive",)))),
    Case(as_python_says, ((-GOOD, ("the sum must be positive",)),)),
    Case(of_a_float, ((bad((0, 0)), ("the first must not be zero",)),)),
    Case(of_a_number, ((-GOOD, (r"assertion failed for expression .*u0",)),)),
    Case(of_a_wide_number, ((bad((11, -70.5)), ("assertion failed for expression",)),)),
    Case(of_all, ((bad((11, 0)), ("assertion failed for expression",)),)),
    Case(
        several,
        (
            (bad((1, -3)), ("first",)),
            (bad((1, 100)), ("second",)),
            (bad((1, NAN)), ("first", "second", "third")),
            (bad((0, -1), (11, 200)), ("first", "second")),
        ),
    ),
    Case(between_neighbours, ((bad((3, 1), (4, -3), (5, 2)), ("no row may sum to zero",)),)),
    Case(of_nothing_else, ((GOOD * 5, ("too large",)),)),
    Case(in_a_branch, ((bad((11, -2)), ("in a branch",)),)),
    Case(
        in_both_sides,
        (
            (bad((0, 50)), ("inner",)),
            (bad((0, 50), (1, 60)), ("inner", "outer")),
            (bad((0, -500), (2, 70)), ("second",)),
        ),
    ),
    Case(in_a_loop, ((bad((4, 20)), ("in a loop",)), (bad((4, 40)), ("in a loop",)))),
    Case(in_a_map, ((bad((0, -9)), ("in a map",)), (bad((11, -90)), ("in a map",)))),
    Case(in_a_scan, ((bad((1, 20)), ("in a scan",)),)),
)


def compiled(step: Step, target: str, dynamic_shapes: Any = None, **options: Any) -> Model:
    return aotpack.compile(
        Asserting(step), (GOOD,), target=target, dynamic_shapes=dynamic_shapes, **options
    )


@contextmanager
def failing(*words: str) -> Iterator[None]:
    """The block raises, and each of these words is in a line of its own."""
    with pytest.raises(AssertionFailed) as caught:
        yield
    for word in words:
        caught.match(word)


def told(model: Model, x: torch.Tensor) -> set[int]:
    """The numbers of the assertions that fail on an input."""
    message = ""
    try:
        model(x)
    except AssertionFailed as error:
        message = str(error)
    listed = enumerate(model.signature.assertions)
    return {number for number, one in listed if one.message in message}


@pytest.mark.row("S:H26", "S:Q5")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_holds_passes_and_what_fails_raises_at_once(case: Case) -> None:
    """In C and interpreted, of one build."""
    models = compile_all(Asserting(case.step), (GOOD,)).models
    assert set(models) == set(TARGETS)
    for model in models.values():
        check_case(case, model)


def check_case(case: Case, model: Model) -> None:
    wanted = case.step(GOOD)
    torch.testing.assert_close(model(GOOD), wanted)
    for x, words in case.fails:
        with pytest.raises((RuntimeError, AssertionError)):
            case.step(x)  # eager raises too
        with failing("calling model: an assertion failed: ", *words):
            model(x)
        torch.testing.assert_close(model(GOOD), wanted)  # and the next good call is good


class Lines(nn.Module):
    """Each assertion on a line of forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "all must be positive")
        torch._check((x > 2).sum().item() > 3)
        return x * 2


@pytest.mark.row("S:H26")
def test_the_error_names_the_operators_and_the_lines() -> None:
    model = aotpack.compile(Lines(), (GOOD,), target="cpu")
    place = r"\n  aten.{} at test_assertions.py:\d+: torch.{}"
    tensors = place.format("_assert_async.msg", r"_assert_async\(\(x > 0\).all\(\)")
    numbers = place.format("_assert_scalar.default", r"_check\(\(x > 2\).sum\(\).item\(\) > 3\)")
    with failing("all must be positive" + tensors, r"u0 >= 4 on node 'ge_1'" + numbers):
        model(-GOOD)


@pytest.mark.row("S:H26", "S:Q5")
@pytest.mark.parametrize("target", TARGETS)
def test_those_that_hold_are_not_told(target: str) -> None:
    model = compiled(several, target)
    assert told(model, GOOD) == set()
    assert told(model, bad((1, -3))) == {0}
    assert told(model, bad((1, 100))) == {1}
    assert told(model, bad((1, NAN))) == {0, 1, 2}
    assert told(model, GOOD) == set()


@pytest.mark.row("S:H26", "S:Q5")
@pytest.mark.parametrize("target", TARGETS)
def test_with_dynamic_sizes(target: str) -> None:
    rows = torch.export.Dim("rows", min=1, max=300)
    model = compiled(between_neighbours, target, {"x": {0: rows}})
    for count in (1, 2, 7, 255, 257):
        x = torch.rand(count, 3) + 1
        torch.testing.assert_close(model(x), between_neighbours(x))
        x[count // 2] = 0
        with failing("no row may sum to zero"):
            model(x)


@pytest.mark.row("S:H26")
@pytest.mark.parametrize("target", TARGETS)
def test_numpy_results_raise_too_and_threads_hear_of_their_own_calls_alone(target: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = compiled(positive, target)

    def call(number: int) -> bool:
        x = (GOOD if number % 3 else -GOOD).numpy()
        try:
            return bool(np.array_equal(model(x), x * 2)) and number % 3 != 0
        except AssertionFailed:
            return number % 3 == 0

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(call, range(30)))


class Counting(nn.Module):
    """State beside an assertion."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        torch._assert_async((x > 0).all(), "positive")
        return x * self.calls


@pytest.mark.row("S:H26")
@pytest.mark.parametrize("target", TARGETS)
def test_beside_state_which_words_are_no_part_of(target: str) -> None:
    model = aotpack.compile(Counting(), (GOOD,), target=target)
    assert list(model.state) == ["calls"] and model.signature.updates == ("calls",)
    model(GOOD)
    with failing("positive"):
        model(-GOOD)
    torch.testing.assert_close(model(GOOD), GOOD * 3)


# --- what the stages make of them ----------------------------------------------------------------


@pytest.mark.row("S:Q5")
@pytest.mark.parametrize("step", [positive, several, between_neighbours, of_nothing_else])
def test_programs_keep_them_and_kernels_inherit_them(step: Step) -> None:
    """No pass drops one, none has a kernel for itself, and none is copied."""
    lowered = lower(Build(Source(Asserting(step), (GOOD,))).traced)
    made = schedule(lowered).schedule
    words = [one.word for one in lowered.signature.assertions]
    updated = {update.name: update.value for update in made.program.updates}
    assert words and list(updated) == words
    assert list(updated.values()) == [f"asserted{number}" for number in range(len(words))]
    for value in updated.values():
        (kernel,) = (k for k in made.kernels if value in k.stored)
        assert len(kernel.members) > 1


@pytest.mark.row("S:H26")
def test_the_evaluator_writes_words_that_stay() -> None:
    program = lower(Build(Source(Asserting(several), (GOOD,))).traced).program
    clear = {f"assertion{number}": np.int32(0) for number in range(3)}

    def words(x: torch.Tensor, before: dict[str, Any]) -> dict[str, Any]:
        found = evaluate(program, {"x": x.numpy(), **before}, {}, {})
        return {name: found[name] for name in before}

    assert words(GOOD, clear) == clear
    first = words(bad((1, -3)), clear)
    assert first == clear | {"assertion0": 1}
    assert words(GOOD, first) == first


def of_sizes(x):
    torch._check(x.shape[0] > 1)
    return x + 1


@pytest.mark.row("S:H26")
def test_without_assertions_there_are_no_words_and_no_memory_for_them() -> None:
    model = compiled(of_sizes, "cpu", {"x": {0: torch.export.Dim("rows", min=2, max=9)}})
    torch.testing.assert_close(model(GOOD), GOOD + 1)
    assert model.signature.assertions == ()
    lowered = lower(Build(Source(Asserting(of_sizes), (GOOD,))).traced)
    assert lowered.program.updates == () and lowered.program.inputs == ("x",)
    assert {name for o in lowered.program.operations for name in targets(o)} == {"add"}


# --- refusals ------------------------------------------------------------------------------------


def mapped(x):
    def row(x):
        torch._assert_async((x > 0).all(), "in vmap")
        return x * 2

    return torch.vmap(row)(x)


def in_a_test(x):
    def test(i, y):
        torch._assert_async((y < 40).all(), "in a test")
        return i < 2

    return while_loop(test, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1]


def of_a_magnitude(x):
    torch._check(abs(x.sum().item()) > 0.001)
    return x + 1


@pytest.mark.row("S:H26")
@pytest.mark.parametrize(
    ("step", "message"),
    [
        (mapped, "Batching rule not implemented for aten::_assert_async"),
        (in_a_test, "its test asserts 'in a test'; assert it in the body, or on the result"),
        (of_a_magnitude, "of numbers that are data, these are computed: add"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refuses(step: Step, message: str) -> None:
    with pytest.raises(AotpackError, match=message):
        compiled(step, "cpu")


def test_what_fails_on_the_example_is_no_package() -> None:
    with pytest.raises(AotpackError, match="eagerly on the example inputs.*all must be positive"):
        aotpack.compile(Asserting(positive), (-GOOD,), target="cpu")


# --- positions -----------------------------------------------------------------------------------


class Places(nn.Module):
    """Calls with positions ``i``, on a table of four rows."""

    def __init__(self, step: Callable[..., Any]) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        return self.step(x, i)


def wide(i):
    return i[:, None].expand(-1, 3)


def looked_up(x, i):
    """Eager accepts 0 to 3."""
    return torch.nn.functional.embedding(i, x), x.index_select(0, i), x.gather(0, wide(i))


def written(x, i):
    rows = x[: i.shape[0]] * 2
    added = x.index_copy(0, i, rows).index_add(0, i, rows).index_reduce(0, i, rows, "amax")
    return added.scatter(0, wide(i), rows).scatter_add(0, wide(i), rows)


def counted(x, i):
    """Eager accepts -4 to 3."""
    filled = x.index_put((i,), x[: i.shape[0]]).index_fill(0, i, 7.0)
    return filled[i], filled.flatten().put(i, x[:, 0][: i.shape[0]])


def taken(x, i):
    """Eager accepts -12 to 11."""
    return x.take(i)


@pytest.mark.row("C:inv5")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("step", "accepted", "refused"),
    [
        (looked_up, (0, 3), (-1, 4)),
        (written, (0, 3), (-1, 4)),
        (counted, (-4, 3), (-5, 4)),
        (taken, (-12, 11), (-13, 12)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_builds_that_check_indices_raise_where_eager_does(
    step: Step, accepted: tuple[int, ...], refused: tuple[int, ...], target: str
) -> None:
    i = torch.tensor([1, 0, 2], dtype=torch.int64)
    model = aotpack.compile(Places(step), (GOOD, i), target=target, check_indices=True)
    for place in accepted:
        i[1] = place
        torch.testing.assert_close(model(GOOD, i), step(GOOD, i))
    for place in refused:
        i[1] = place
        with pytest.raises((IndexError, RuntimeError), match="out of (range|bounds)"):
            step(GOOD, i)
        with failing(f"positions must be at least {accepted[0]} and less than {accepted[1] + 1}"):
            model(GOOD, i)


def test_values_that_a_mask_counts_go_where_it_is_true_with_checks() -> None:
    def step(x, i):
        places = i > 0
        return x.index_put((places,), x[places] * 2)

    x, i = torch.rand(5), torch.tensor([1, 0, 2, 0, 3])
    model = aotpack.compile(Places(step), (x, i), target="cpu", check_indices=True)
    for given in (i, i * 0, i + 1, i - 2):
        torch.testing.assert_close(model(x, given), step(x, given))


@pytest.mark.row("C:inv5")
def test_indices_are_checked_in_loops_with_dynamic_sizes_and_of_any_type() -> None:
    def step(x, i):
        rows = map_over(lambda row: row[i], x)
        return rows.sum() + x.index_select(0, i).sum()

    count, size = torch.export.Dim("count", min=1, max=9), torch.export.Dim("size", min=2, max=9)
    shapes = {"x": {0: size, 1: size}, "i": {0: count}}
    i = torch.tensor([1, 0, 2], dtype=torch.int32)
    model = aotpack.compile(
        Places(step), (torch.ones(5, 5), i), dynamic_shapes=shapes, target="cpu", check_indices=True
    )
    x = torch.rand(7, 7)
    for last in (6, 2):
        i[2] = last
        torch.testing.assert_close(model(x, i), step(x, i))
    i[2] = -1
    assert [one.place.split()[0] for one in model.signature.assertions] == [
        "aten.index.Tensor",
        "aten.index_select.default",
    ]
    with failing("positions must be at least 0 and less than size"):
        model(x, i)
    i[2] = 7
    with failing("at least -size and less than size", "at least 0 and less than size"):
        model(x, i)


@pytest.mark.row("C:inv5")
def test_other_builds_check_no_indices() -> None:
    i = torch.tensor([0, 3])
    model = aotpack.compile(Places(looked_up), (GOOD, i), target="cpu")
    assert model.signature.assertions == ()
    assert torch.equal(model(GOOD, i + 1)[0], GOOD[[1, 3]])  # the nearest row
