"""Values as lines: literals, divisions, masks, guards, hoisting, common subexpressions."""

from itertools import count

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, Var, minimum
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value
from aotpack.render.emit.arguments import Arguments
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.regions import Region
from aotpack.render.triton.dialect import TritonDialect
from tests.schedule.programs import BF16, BOOL, F32, I64, Writer, apply, load

S = Var("s", 1, 100)
X, R = Axis("x", Int.of(S)), Axis("r", Int.of(64))


def program() -> Program:
    w = Writer((S,))
    x = w.input("x", S, 64)
    w.input("bias", 64, dtype=BF16)
    w.input("ids", S, dtype=I64)
    return w.program(w.pointwise("y", [S, 64], lambda i, j: load(x, i, j)))


class Bench:
    """An emitter over x (masked) and r, with a loop over r if asked."""

    def __init__(self, *, looped: bool = False) -> None:
        self.program = program()
        self.root = Region(frozenset((X,)) if looped else frozenset((X, R)))
        region = self.root.open("for r:", frozenset((R,))) if looped else self.root
        frame = Frame({X: "x", R: "r"}, {X: "x_mask"}, ((X, 16), (R, 64)))
        arguments = Arguments(self.program, ("y",), wide=False)
        names = count(1)
        self.emitter = Emitter(
            frame,
            region,
            arguments,
            offset=self._offset,
            row=lambda buffer: None,
            resolve=lambda load: None,
            fresh=lambda prefix: f"{prefix}{next(names)}",
            dialect=TritonDialect(),
            ends_in=None,
        )

    def _offset(self, load: Load) -> Int:
        offset = Int.of(0)
        shape = self.program.buffers[load.buffer].shape
        for part, size in zip(load.index, shape, strict=True):
            offset = offset * size + part
        return offset

    def load(self, name: str, *index: Int | Axis) -> Load:
        return load(self.program.buffers[name], *index)

    def lines(self, *values: Value) -> list[str]:
        for value in values:
            self.emitter.value(value)
        return list(self.root.lines())


@pytest.mark.row("C:D9", "C:inv16")
@pytest.mark.parametrize(
    ("constant", "text"),
    [
        (Const(True, BOOL), "True"),
        (Const(1.5, F32), "1.5"),
        (Const(3, DType.INT32), "3"),
        (Const(3, I64), "tl.full([], 3, tl.int64)"),
        (Const(float("-inf"), F32), 'float("-inf")'),
        (Const(float("nan"), DType.FLOAT64), 'tl.full([], float("nan"), tl.float64)'),
    ],
)
def test_literal(constant: Const, text: str) -> None:
    assert TritonDialect().literal(constant) == text


@pytest.mark.row("C:D3")
def test_division_rounds_down_for_any_numerator() -> None:
    assert Bench().lines(IndexValue(Int.of(R) // 7, I64))[0] == "i1 = r // 7"
    below = Bench().lines(IndexValue((Int.of(R) - 50) // Int.of(S), I64))
    assert any(" % s + s) % s) // s" in line for line in below)


@pytest.mark.row("C:A11", "C:A13", "C:D5")
def test_sizes_that_are_not_simple_are_named() -> None:
    size = minimum(Int.of(X) * 2, Int.of(S))
    lines = Bench(looped=True).lines(IndexValue(size + R, I64), IndexValue(size * R, I64))
    assert lines[0] in ("i1 = tl.minimum(2*x, s)", "i1 = tl.minimum(s, 2*x)")
    assert lines[1] == "for r:" and sum("tl.minimum" in line for line in lines) == 1


@pytest.mark.row("C:F1", "C:F9")
def test_a_load_is_masked_by_the_axes_it_depends_on() -> None:
    bench = Bench()
    both, along = bench.load("x", Int.of(X), Int.of(R)), bench.load("bias", Int.of(R))
    first, second = bench.lines(both, along)
    assert "mask=x_mask" in first
    assert "mask" not in second and second.endswith(".to(tl.float32)")


@pytest.mark.row("S:P12", "C:F10")
def test_equal_values_are_computed_once() -> None:
    bench = Bench()
    x = bench.load("x", Int.of(X), Int.of(R))
    lines = bench.lines(apply("add", apply("exp", x), apply("neg", apply("exp", x))))
    assert sum("exp" in line for line in lines) == 1


@pytest.mark.row("C:A13", "C:F6")
def test_what_a_loop_does_not_change_goes_before_it() -> None:
    bench = Bench(looped=True)
    once = Apply("exp", (bench.load("x", Int.of(X), Int.of(3)),), F32)
    lines = bench.lines(apply("add", once, bench.load("x", Int.of(X), Int.of(R))))
    header = lines.index("for r:")
    assert any("exp" in line for line in lines[:header])
    assert not any("exp" in line for line in lines[header:])


@pytest.mark.row("C:E23", "C:F6")
def test_a_guarded_load_stays_with_its_condition() -> None:
    """It does not depend on r itself, but the guard does: not before the loop."""
    bench = Bench(looped=True)
    condition = Apply("lt", (IndexValue(Int.of(R), I64), Const(3, I64)), BOOL)
    row = bench.load("x", Int.of(X), Int.of(0))
    lines = bench.lines(Guarded(condition, row, Const(0.0, F32), F32))
    assert lines[0] == "for r:"
    assert any("tl.load" in line and "x_mask & t" in line for line in lines)


@pytest.mark.row("C:A14", "C:F2")
def test_an_indirect_index_is_loaded_first() -> None:
    bench = Bench()
    row = Int.of(Indirect(bench.load("ids", Int.of(X)), Int.of(S)))
    first, second = bench.lines(bench.load("x", row, Int.of(R)))
    assert first.startswith("t1 = tl.load(ids_ptr")
    assert "64*t1" in second and "mask=x_mask" in second


@pytest.mark.row("C:A15", "C:F3")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            Const(0.5, F32),
            "tl.broadcast_to(tl.full([1, 1], 0.5, tl.float32).to(tl.bfloat16), [16, 64])",
        ),
        (Load("bias", (Int.of(R),), F32), "tl.broadcast_to("),
    ],
)
def test_a_factor_spans_the_whole_tile(value: Value, text: str) -> None:
    bench = Bench()
    bench.emitter.operand(value, BF16, R)
    assert text in "\n".join(bench.root.lines())


def test_a_factor_in_memory_is_loaded_as_it_is() -> None:
    bench = Bench()
    value = Load("x", (Int.of(X), Int.of(R)), F32)
    bench.emitter.operand(value, F32, R)
    (line,) = bench.root.lines()
    assert line.startswith("t1 = tl.load(x_ptr")
