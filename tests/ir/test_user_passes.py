"""Passes of the user: what they change is built; what they must not change is refused in words."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch

import aotpack
from aotpack.errors import UsageError
from aotpack.ir.operations import Pointwise
from aotpack.ir.program import Program, targets
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.user_passes import apply_passes
from aotpack.ir.values import Apply, Value
from aotpack.pipeline import Build, BuildOptions, Source
from tests.e2e.models import Function
from tests.schedule.programs import Writer, apply, load


def as_relu(program: Program) -> Program:
    """max(x, 0) instead of exp(x)."""

    def change(value: Apply) -> Value | None:
        return Apply("relu", value.args, value.dtype) if value.op == "exp" else None

    operations = (map_values(o, Rewriter({}, apply=change)) for o in program.operations)
    return replace(program, operations=tuple(operations))


def all_alone(program: Program) -> Program:
    """Every operation is a kernel."""
    made = {name for operation in program.operations for name in targets(operation)}
    buffers = {
        name: replace(buffer, unfusable=name in made) for name, buffer in program.buffers.items()
    }
    return replace(program, buffers=buffers)


MODEL = Function(lambda x: (x.exp() + 1).sum(1), 1)
X = torch.linspace(-2, 2, 24).reshape(4, 6)


@pytest.mark.row("S:L18")
def test_what_a_pass_makes_is_built() -> None:
    model = aotpack.compile(MODEL, (X,), target="cpu", passes=[as_relu])
    torch.testing.assert_close(model(X), (X.relu() + 1).sum(1))
    torch.testing.assert_close(aotpack.compile(MODEL, (X,), target="cpu")(X), MODEL(X))


def kernels(*passes: object) -> int:
    options = BuildOptions(passes=tuple(passes))  # type: ignore[arg-type]
    return len(Build(Source(MODEL, (X,)), options).scheduled.schedule.kernels)


@pytest.mark.row("S:M19", "S:L18")
def test_buffers_that_are_alone_do_not_fuse() -> None:
    assert (kernels(), kernels(all_alone)) == (1, 3)
    model = aotpack.compile(MODEL, (X,), target="cpu", passes=[all_alone])
    torch.testing.assert_close(model(X), MODEL(X))


def small() -> Program:
    w = Writer()
    x = w.input("x", 4)
    return w.program(w.pointwise("y", [4], lambda i: apply("exp", load(x, i))))


def illegal(program: Program) -> Program:
    return replace(program, operations=())


def wider(program: Program) -> Program:
    (operation,) = program.operations
    assert isinstance(operation, Pointwise)
    buffers = program.buffers | {"y": replace(program.buffers["y"], shape=(Int.of(5),))}
    return replace(program, buffers=buffers)


def nothing(program: Program) -> None:
    return None


def raising(program: Program) -> Program:
    raise ValueError("no idea")


@pytest.mark.row("S:L18")
@pytest.mark.parametrize(
    ("one", "words"),
    [
        (illegal, "pass illegal: its program is illegal: nothing writes y"),
        (wider, r"pass wider: (its program is illegal|it changes the results, from .*4.* to .*5)"),
        (nothing, "pass nothing: it returns a NoneType; accepted is a Program"),
        (raising, "pass raising: ValueError: no idea"),
    ],
)
def test_what_a_pass_must_not_do(one: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        apply_passes(small(), [one])  # type: ignore[list-item]


@pytest.mark.row("S:L18")
@pytest.mark.parametrize(
    ("passes", "words"),
    [
        (as_relu, r"passes: found as_relu itself; accepted is a list: passes=\[as_relu\]"),
        (3, "passes: found an int; accepted is a list"),
        ([as_relu, "relu"], "passes: found 'relu' in the list; accepted are functions"),
    ],
)
@pytest.mark.parametrize("make", [partial(aotpack.compile, target="cpu"), aotpack.build])
def test_what_passes_are_not(make: Callable[..., object], passes: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make(MODEL, (X,), passes=passes)


def test_no_passes_change_nothing() -> None:
    program = small()
    assert apply_passes(program, ()) is program
