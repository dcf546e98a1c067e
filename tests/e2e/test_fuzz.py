"""The fuzzer: a fixed range of seeds each run, what it once found, and that it notices mistakes."""

import random
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch

import aotpack.schedule
from aotpack.devices import H200
from aotpack.ir.operations import Pointwise
from aotpack.ir.program import Program
from aotpack.lower.registry import LOWERINGS
from aotpack.stages import Lowered, Scheduled
from aotpack.target import CPU, INTERPRETER
from tests.c_flags import BASE_ONLY, shipped
from tests.e2e.law import LAW
from tools import fuzz, fuzz_convs, fuzz_counted, fuzz_schedules, fuzz_strides, fuzz_subgraphs
from tools.fuzz_control import SCOPE
from tools.fuzz_make import make
from tools.fuzz_model import LAYOUTS, Body, Input, Line, Model, inner_lines

pytestmark = pytest.mark.usefixtures("as_shipped")

SEEDS = range(36)
STRIDED = range(4)
WITH_SUBGRAPHS = (2, 3, 4, 13)
F32, F64, I32, BF16 = torch.float32, torch.float64, torch.int32, torch.bfloat16


@pytest.mark.row("S:M20", "S:Q6", "S:inv10", "S:inv20", "S:inv37", "C:inv8", "C:inv12")
@pytest.mark.parametrize("first", SEEDS[::6])
def test_random_models(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second model gets small blocks and many parts; of the others every second is in C."""
    monkeypatch.setenv("AOTPACK_CFLAGS", f"-Og {shipped() if first % 4 else BASE_ONLY}")
    for seed in range(first, first + 6):
        model, target = make(seed), CPU if seed % 4 == 2 else INTERPRETER
        gpu = fuzz_schedules.SMALL if seed % 2 else H200
        with fuzz_schedules.odd_schedules(seed) if seed % 2 else nullcontext():
            kind, words = fuzz.verdict(model, (target,), gpu)
        assert kind in ("ok", "refused"), f"seed {seed}: {words}\n{model.source}"


def model(inputs: dict[str, tuple[tuple[int | str, ...], torch.dtype]], *lines: str) -> Model:
    """A model from lines such as ``v0 = x.sin()``; names that start with w are weights."""
    given = tuple(
        Input(name, dims, dtype, name.startswith("w")) for name, (dims, dtype) in inputs.items()
    )
    known = [x.name for x in given]
    made = []
    for line in lines:
        name, _, expression = line.partition(" = ")
        made.append(Line(name, expression, tuple(k for k in known if k in expression)))
        known.append(name)
    return Model(given, tuple(made))


FOUND = {
    "factor_of_a_product_that_is_broadcast": model(
        {"x": ((4, 6), F32), "w": ((1, 6), F32)}, "v0 = x @ w.expand(6, 6)"
    ),
    "factor_of_a_product_that_is_constant": model(
        {"x": ((4, 6), F32)}, "v0 = x @ torch.full((6, 2), 0.5)"
    ),
    "guard_on_a_size_alone": model(
        {"x": (("s", "b"), I32)}, "v0 = torch.cat([x, x], 0)", "v1 = v0.narrow(0, 1, 1)"
    ),
    "guard_in_a_loop_over_what_it_does_not_read": model(
        {"x": ((3, 5), F32), "y": ((3, 1), F32)},
        "v0 = torch.cat([x, y.expand(3, 4)], 1)",
        "v1 = v0.sum(1)",
    ),
    "looped_variance": model({"x": (("b", 37), F32)}, "v0 = x.var(1, correction=0)"),
    "scalar_after_a_loop": model({"x": (("b",), F32)}, "v0 = x.sum((0,)) / 8", "v1 = v0.tanh()"),
    "output_with_odd_strides": model(
        {"x": ((7,), I32)}, "v0 = x.unsqueeze(0) * 3", "v1 = v0.select(1, 4)"
    ),
    "product_of_bfloat16": model(
        {"x": ((5, 12), BF16), "w": ((7, 12), BF16)}, "v0 = F.linear(x, w)"
    ),
    "decision_as_a_number": model({"x": ((4, 5), F32)}, "v0 = (x > 0).float()", "v1 = x.sign()"),
    "scan_of_one_element": model({"x": ((1,), I32)}, "v0 = x.cummax(0)[1]", "v1 = v0 ^ v0"),
    "number_stored_in_16_bits": model({"w": ((1, 1), BF16), "x": ((2,), BF16)}, "v0 = w.tril(-1)"),
    "steps_in_float32_of_a_float64": model(
        {"x": ((6, 6), F64)}, "v0 = x.float()", "v1 = F.layer_norm(v0, (6,))", "v2 = v1 - x"
    ),
    "flat_group_that_is_renumbered": model(
        {"x": (("b", 8, 1), F32)},
        "v0 = (x + 1).unflatten(1, (2, -1))",
        "v1 = v0.flatten(0, 2)",
        "v2 = v1.unflatten(0, (2, -1))",
        "v3 = v0.mean(0, keepdim=True)",
        "v4 = v0 @ v1.transpose(-1, -2)",
    ),
    "padded_convolution_of_one_number": model(
        {"x": ((2, 1, 5), F32), "w": ((6, 1, 1), F32)}, "v0 = F.conv1d(x, w, None, 1, 2)"
    ),
    "nothing_to_reduce": model({"x": ((3, 0), F32)}, "v0 = x.sum(1)", "v1 = x * 2"),
}


FOUND_ON_PROCESSORS = {
    "kept_value_of_an_outer_loop": model(
        {"x": (("b",), F32)},
        "v0 = (1 / (x * x + 1)).repeat_interleave(2, 0)",
        "v1 = v0 * v0",
        "v2 = v1 * v1.sum((0,))",
    ),
    "kept_value_of_all_rows": model(
        {"x": ((40, 1), F32)}, "v0 = x.exp().expand(40, 70)", "v1 = v0 - v0.mean(0)"
    ),
    "maximum_of_rounded_numbers": model(
        {"x": ((17, "b"), BF16)},
        "v0 = x.sigmoid().log_softmax(1)",
        "v1 = v0.select(0, 13).float()",
    ),
}


@pytest.mark.row("S:Q6", "C:inv12")
@pytest.mark.parametrize("name", FOUND_ON_PROCESSORS)
def test_found_on_processors(name: str) -> None:
    fuzz.check(FOUND_ON_PROCESSORS[name], (CPU,))


@pytest.mark.row("S:Q6", "S:inv29", "C:inv12")
@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("name", FOUND)
def test_found_before(name: str, odd: bool) -> None:
    with fuzz_schedules.odd_schedules(1) if odd else nullcontext():
        fuzz.check(FOUND[name], gpu=fuzz_schedules.SMALL if odd else H200)


CONVOLUTIONS = fuzz.Campaign(fuzz_convs.make, (INTERPRETER, CPU), tolerance=LAW, rebinds=True)


@pytest.mark.parametrize("seed", range(2))
def test_random_convolutions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In C and interpreted; the last has small blocks."""
    monkeypatch.setenv("AOTPACK_CFLAGS", f"-Og {shipped()}")
    kind, words, small = replace(CONVOLUTIONS, odd=seed == 1).examine(seed)
    assert kind in ("ok", "refused"), f"seed {seed}: {words}\n{small.source}"


def test_convolutions_are_a_function_of_the_seed() -> None:
    made = [fuzz_convs.make(seed) for seed in range(12)]
    assert made == [fuzz_convs.make(seed) for seed in range(12)]
    assert all("conv" in one.source for one in made)
    assert {len(one.inputs[0].dims) for one in made} == {3, 4, 5}


def test_models_are_a_function_of_the_seed() -> None:
    assert make(3) == make(3) != make(4)
    state = random.getstate()
    make(5)
    assert random.getstate() == state


def broken_schedule(lowered: Lowered, **options: Any) -> Scheduled:
    """A scheduler that forgets one operation's value."""
    program: Program = lowered.program
    *others, last = program.operations
    assert isinstance(last, Pointwise)
    first = next(op for op in program.operations if isinstance(op, Pointwise))
    changed = replace(last, value=first.value) if first.axes == last.axes else last
    broken = replace(lowered, program=replace(program, operations=(*others, changed)))
    return aotpack.schedule.schedule(broken, **options)


def test_notices_a_wrong_scheduler_and_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aotpack.pipeline.schedule", broken_schedule)
    wrong = model({"x": ((4, 5), F32)}, "v0 = x.tanh()", "v1 = v0 * 2", "v2 = v1 + 1")
    kind, words = fuzz.verdict(wrong)
    assert kind == "wrong" and "the scheduled program" in words
    small = fuzz.shrink(wrong, kind)
    assert len(small.lines) == 2
    assert fuzz.verdict(small)[0] == "wrong"


def test_notices_a_wrong_convolution_and_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aotpack.pipeline.schedule", broken_schedule)
    wrong = model(
        {"x": ((2, 3, 9), F32), "w": ((4, 3, 3), F32)},
        "v0 = x.tanh()",
        "v1 = F.conv1d(v0, w, None, 2, 4)",
        "v2 = v0 * 2",
    )
    kind, words, small = replace(CONVOLUTIONS, make=lambda seed: wrong).examine(0)
    assert kind == "wrong" and "the scheduled program" in words
    assert [line.name for line in small.lines] == ["v0", "v2"]


@pytest.mark.row("S:A13", "S:M20")
def test_a_random_model_with_counted_sizes() -> None:
    drawn = fuzz_counted.make(6)
    kind, words = fuzz.verdict(drawn, (CPU,))
    assert kind == "ok", f"{words}\n{drawn.source}"


# --- strides -----------------------------------------------------------------------------------


def test_strided_models_are_a_function_of_the_seed() -> None:
    made = [fuzz_strides.make(seed) for seed in range(40)]
    assert made == [fuzz_strides.make(seed) for seed in range(40)]
    assert {x.layout for one in made for x in one.inputs} == {*LAYOUTS}
    assert any(x.is_weight and x.layout != "rows" for one in made for x in one.inputs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_keep_what_a_tensor_holds(layout: str) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    if layout == "expanded":
        x = x[:1].repeat(2, 1, 1)
    laid = LAYOUTS[layout](x)
    assert torch.equal(laid, x)
    is_rows = laid.is_contiguous() and not laid.storage_offset()
    assert is_rows == (layout == "rows")
    assert LAYOUTS[layout](torch.ones(3)).shape == (3,)


@pytest.mark.parametrize("seed", STRIDED)
def test_random_strided_models(seed: int) -> None:
    drawn = fuzz_strides.make(seed)
    kind, words = fuzz.verdict(drawn)
    assert kind == "ok", f"{words}\n{drawn.source}"


def turned(source: str) -> Model:
    """A model of an input in channels-last memory."""
    x = Input("x", (2, 3, 4, 5), F32, layout="channels_last")
    return Model((x,), (Line("v0", "x * 2", ("x",)), Line("v1", source, ("v0",))))


def test_notices_other_strides_and_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature that forgets the orders of results."""
    wrong = turned("v0.relu()")
    assert fuzz.verdict(wrong) == ("ok", "")
    monkeypatch.setattr("aotpack.trace.graph.memory_order", lambda shape, strides: ())
    kind, words = fuzz.verdict(wrong)
    assert kind == "wrong" and "lies in (60, 1, 15, 3), the signature says ()" in words
    assert len(fuzz.shrink(wrong, kind).lines) == 1


def test_notices_results_in_other_strides_than_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    def promised(shape: tuple[int, ...], order: tuple[int, ...] = ()) -> tuple[int, ...]:
        return (999,) * len(shape)

    monkeypatch.setattr(fuzz_strides, "strides", promised)
    monkeypatch.setattr(fuzz_strides, "_check_orders", lambda compiled, args: None)
    kind, words = fuzz.verdict(turned("v0.relu()"))
    assert kind == "wrong" and "the signature promises (999, 999, 999, 999)" in words


# --- subgraphs ---------------------------------------------------------------------------------


def test_models_with_subgraphs_are_a_function_of_the_seed() -> None:
    made = [fuzz_subgraphs.make(seed) for seed in range(30)]
    assert made == [fuzz_subgraphs.make(seed) for seed in range(30)]
    assert all(f"{name}(" in " ".join(one.source for one in made) for name in SCOPE)
    assert any(inner.bodies for one in made for inner in inner_lines(one)), "none is nested"


@pytest.mark.parametrize("seed", WITH_SUBGRAPHS)
def test_random_models_with_subgraphs(seed: int) -> None:
    drawn = fuzz_subgraphs.make(seed)
    kind, words = fuzz.verdict(drawn)
    assert kind == "ok", f"{words}\n{drawn.source}"


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x + x


@pytest.mark.parametrize("name", ["cond", "while_loop", "scan", "map_over", "region"])
def test_plain_python_means_what_torch_does(name: str) -> None:
    """Eager's side of a comparison is no torch operator."""
    x, w = torch.randn(4, 3, 4), torch.randn(4)
    calls = {
        "cond": lambda f: f(x.sum() > 0, lambda x: x + w, lambda x: x * 2, (x,)),
        "while_loop": lambda f: f(lambda i, x: i < 3, lambda i, x: (i + 1, x * w), (0, x))[1],
        "scan": lambda f: f(lambda c, x: (c * w + x, c - x), x[:, 0] * 2, x, dim=1, reverse=True),
        "map_over": lambda f: f(lambda x: x @ x.mT @ x - w, x),
        "region": lambda f: f(doubled, x),
    }
    plain = calls[name](SCOPE[name])
    compiled = torch.compile(calls[name], backend="eager")(SCOPE[name])
    torch.testing.assert_close(compiled, plain)


def loop_of(*expressions: str) -> Model:
    """A model of a loop whose body has these lines after another."""
    names = ["a", *(f"b{n}" for n in range(len(expressions)))]
    lines = tuple(
        Line(made, text.format(read), (read,))
        for read, made, text in zip(names, names[1:], expressions, strict=False)
    )
    body = Body("step", ("i", "a"), lines, f"(i + 1, {names[-1]})", ("i", names[-1]))
    test = Body("test", ("i", "a"), (), "i < 3", ("i",))
    call = Line("v0", "while_loop(test, step, (0, x * 1))", ("x",), (test, body))
    return Model((Input("x", (4, 5), I32),), (call, Line("v1", "v0[1]", ("v0",))))


def test_notices_a_wrong_body_and_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOWERINGS, "aten.abs.default", LOWERINGS["aten.neg.default"])
    wrong = loop_of("{}.abs()", "{} * 2")
    kind, words = fuzz.verdict(wrong)
    assert kind == "wrong" and "the lowered program" in words
    small = fuzz.shrink(wrong, kind)
    assert [line.expression for line in inner_lines(small)] == ["a.abs()"]
