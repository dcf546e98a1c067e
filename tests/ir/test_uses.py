"""Who writes and reads a buffer: operations, kernels, members of a kernel."""

from dataclasses import replace

import pytest

from aotpack.ir.kernels.kernel import kernel_uses, member_uses
from aotpack.ir.operations import Reduction, Scatter
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.uses import Uses, operation_uses
from aotpack.schedule.fusion.fuse import fuse
from tests.ir.programs import F32, ROW, J, apply, buffer, load, number, over, program

DOUBLE = over("t", (ROW, J), apply("add", load("x", ROW, J), load("x", ROW, J)))
MOST = Reduction(("m",), (ROW,), (J,), "max", (load("t", ROW, J),))
LESS = over("y", (ROW, J), apply("sub", load("t", ROW, J), load("m", ROW)))
SOFTMAX_LIKE = program(
    [buffer(name, F32, Int.of(ROW.extent), 8) for name in "xty"] + [buffer("m", F32, ROW.extent)],
    [DOUBLE, MOST, LESS],
    inputs="x",
)


def test_operations_have_their_producers_and_readers_in_order() -> None:
    uses = operation_uses(SOFTMAX_LIKE.operations)
    assert dict(uses.producers) == {"t": DOUBLE, "m": MOST, "y": LESS}
    assert dict(uses.readers) == {"x": (DOUBLE,), "t": (MOST, LESS), "m": (LESS,)}


def test_what_a_scatter_works_in_is_read() -> None:
    scatter = Scatter("z", "y", (ROW, J), (Int.of(ROW), Int.of(J)), number(1.0), "set")
    assert operation_uses([scatter]).readers["y"] == (scatter,)


def test_kernels_read_memory_and_their_members_registers() -> None:
    (kernel,) = fuse(SOFTMAX_LIKE)
    uses = kernel_uses((kernel,))
    assert dict(uses.producers) == {"y": 0}
    assert dict(uses.readers) == {"x": (0,)}
    double, most, less = kernel.members
    assert dict(member_uses(kernel).producers) == {"t": double, "m": most, "y": less}
    assert member_uses(kernel).readers["t"] == (most, less)


def test_a_kernel_that_reads_its_own_result_is_no_other_reader() -> None:
    (kernel,) = fuse(SOFTMAX_LIKE)
    own = replace(kernel, reads=(*kernel.reads, "y"))
    alone = kernel_uses((own,))
    assert not alone.has_other_readers("y", 0)
    assert not alone.has_other_readers("nothing", 0)
    assert kernel_uses((own, kernel, own)).has_other_readers("y", 0)


def test_uses_do_not_change() -> None:
    uses: Uses[int] = Uses.of([(0, ["a"], ["b"])])
    with pytest.raises(TypeError, match="does not support item assignment"):
        uses.producers["a"] = 1  # type: ignore[index]
