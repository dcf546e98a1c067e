"""Calls of code that is not ours: parameters as Triton types them, and processors refused."""

from dataclasses import replace

import pytest

from aotpack.errors import UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import ENTRY, Foreign, Passed, TorchOperator, TritonKernel
from aotpack.ir.origin import Origin
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.target import CPU

from .models import H100, rendered_program

N = Var("n", 1, 2**40)
KERNEL = TritonKernel(
    "copy",
    f"@triton.jit\ndef {ENTRY}(x, y, n): copy(x, y, n, block=64)",
    (("x", None), ("y", None), ("n", None), ("block", "64")),
    4,
    3,
)
OPERATOR = TorchOperator(
    "aten.linalg_lstsq.default", (Passed(0), Passed(1)), (), ("a", "b"), "none"
)
ORIGIN = Origin(("copy",), (), ("model.py:7: copy[grid](x, y)",))


def program(size: Int, *, torch: bool = False) -> Program:
    """``y = copy(x)``, by a kernel of the user's or by torch."""
    shape = (Int.of(N),)
    buffers = {name: Buffer(name, DType.FLOAT32, shape) for name in ("x", "y")}
    grid = (Int.of(N), Int.of(2), Int.of(1))
    call = Foreign(("y",), (None,), KERNEL, ("x", "y", size), grid, ORIGIN)
    if torch:
        call = replace(call, kernel=OPERATOR, arguments=("x", "y"), grid=(Int.of(1),) * 3)
    return Program((N,), buffers, ("x",), (), (call,), ("y",))


@pytest.mark.parametrize(
    ("size", "kind"), [(Int.of(100), DType.INT32), (Int.of(N) * 4, DType.INT64)]
)
def test_integers_are_as_wide_as_triton_makes_them(size: Int, kind: DType) -> None:
    (kernel,) = rendered_program(program(size)).kernels
    assert [(arg.name, arg.is_pointer, arg.is_written) for arg in kernel.args] == [
        ("x", True, False),
        ("y", True, True),
        ("n", False, False),
    ]
    assert kernel.args[-1].dtype is kind and not kernel.starts_early
    assert f"def {kernel.name}(x, y, n):" in kernel.text and ENTRY not in kernel.text


def test_the_user_s_grid_is_launched() -> None:
    wrapper = rendered_program(program(Int.of(100))).wrapper
    assert "(n, 2, 1), ('x', 'output0', 100)" in wrapper


def test_processors_are_refused_with_the_line_of_the_launch() -> None:
    with pytest.raises(UnsupportedError, match=r"(?s)for the target cpu.*copy  \(model.py:7: copy"):
        rendered_program(program(Int.of(100)), (*H100, CPU))


def test_what_torch_runs_is_a_call_on_any_target() -> None:
    product = rendered_program(program(Int.of(100), torch=True), (*H100, CPU))
    (call,) = product.calls
    assert (call.operator, call.results, product.kernels) == (OPERATOR, 1, ())
    assert f'Call("{call.name}"' in product.wrapper
