"""Triton kernels of the user's: packaged as they are, with what is around them fused by us."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import triton
from torch import Tensor, nn
from torch.library import wrap_triton
from triton.tools.tensor_descriptor import TensorDescriptor

import aotpack
from aotpack import pipeline
from aotpack.errors import UnsupportedError
from aotpack.ir.foreign import Foreign
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.precompile.user_kernels import UserKernels
from aotpack.target import parse_targets

from .law import accuracy_complaint
from .oracle import sizes_of, weight_arrays
from .user_kernels import (
    Changing,
    ChangingReference,
    Fused,
    FusedReference,
    Sums,
    bounded_kernel,
    copy_kernel,
    described_kernel,
    idle_kernel,
    negated,
    worldly_kernel,
)

ROWS = torch.export.Dim("rows", min=1, max=64)


def check(found: Any, eager: Any, exact: Any) -> None:
    for ours, theirs, reference in zip(found, eager, exact, strict=True):
        assert accuracy_complaint(ours, theirs, reference) is None


@pytest.mark.row("S:H15", "S:H1", "S:H2")
def test_kernels_between_our_own() -> None:
    x, y = torch.randn(5, 8), torch.randn(5, 8)
    module = Fused()
    reference = FusedReference()
    reference.load_state_dict(module.state_dict())
    shapes = ({0: ROWS}, {0: ROWS})
    model = aotpack.compile(module, (x, y), dynamic_shapes=shapes, target="interpreter")
    exact = FusedReference().double()
    exact.load_state_dict(module.state_dict())
    with torch.no_grad():
        for rows in (5, 1, 33):
            given = (torch.randn(rows, 8), torch.randn(rows, 8))
            wide = tuple(tensor.double() for tensor in given)
            check(model(*given), reference(*given), exact(*wide))


class InABranch(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, negated, lambda x: x - 1, (x,))


@pytest.mark.row("S:H15")
def test_a_kernel_in_a_branch() -> None:
    x = torch.rand(33)
    model = aotpack.compile(InABranch(), (x,), target="interpreter")
    torch.testing.assert_close(model(x), -x)
    torch.testing.assert_close(model(-x), -x - 1)


@pytest.mark.row("S:H15", "S:H14")
def test_kernels_that_change_their_arguments() -> None:
    model = aotpack.compile(Changing(), (torch.randn(3, 4),), target="interpreter")
    reference = ChangingReference()
    for _ in range(2):
        x = torch.randn(3, 4)
        given = x.clone()
        wanted = reference(x)
        for ours, theirs in zip(model(given), wanted, strict=True):
            torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(given, x)
    torch.testing.assert_close(torch.from_dlpack(model.state["state"]), reference.state)


@pytest.mark.row("S:H15")
def test_what_a_kernel_writes_and_nobody_reads_has_memory() -> None:
    x = torch.randn(5, 8)
    model = aotpack.compile(Sums(), (x,), target="interpreter")
    torch.testing.assert_close(model(x), x.exp().sum(1) + 1)


def interpreted(call: Foreign, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """A launch for the evaluator."""
    arguments = [
        (str(arrays[a].dtype), arrays[a].ctypes.data)
        if isinstance(a, str)
        else ("", int(a.evaluate(sizes)))
        for a in call.arguments
    ]
    x, y, z = (int(side.evaluate(sizes)) for side in call.grid)
    UserKernels().run(call.kernel, (x, y, z), arguments)


def products(
    module: nn.Module, args: tuple[Any, ...], targets: str, shapes: Any = None
) -> pipeline.Build:
    source = pipeline.Source(module, args, dynamic_shapes=shapes)
    return pipeline.Build(source, pipeline.BuildOptions(parse_targets(targets)))


@pytest.mark.row("S:H15")
def test_the_evaluator_calls_them_and_gpus_get_binaries() -> None:
    x, y = torch.randn(6, 8), torch.randn(6, 8)
    module = Fused().requires_grad_(False)
    made = products(module, (x, y), "sm_80,sm_90", ({0: ROWS}, {0: ROWS}))
    arrays = {"x": x.numpy(), "y": y.numpy()}
    reference = FusedReference()
    reference.load_state_dict(module.state_dict())
    weights = weight_arrays(made.lowered.weights, made.lowered.program)
    sizes = sizes_of(made.lowered.signature, (x, y))
    for program in (made.lowered.program, made.scheduled.schedule.program):
        found = evaluate(program, arrays, weights, sizes, call=interpreted)
        for name, wanted in zip(program.outputs, reference(x, y), strict=True):
            torch.testing.assert_close(torch.from_numpy(found[name]), wanted)
    built = {(b.target, b.kernel.rpartition("_")[0]): b for b in made.precompiled.binaries}
    for target in ("sm_80", "sm_90"):
        assert built[target, "scaled_add_kernel"].num_warps == 4
        assert built[target, "row_sums_kernel"].num_warps == 2  # of the first configuration
        assert built[target, "row_sums_kernel"].code.startswith(b"\x7fELF")
    assert "row_sums_kernel[" in made.scheduled.as_text()


@pytest.mark.row("S:H15")
def test_processors_are_refused_until_there_is_a_lowering() -> None:
    args = (torch.randn(6, 8), torch.randn(6, 8))
    with pytest.raises(UnsupportedError, match=r"cpu(.|\n)*scaled_add_kernel(.|\n)*row_sums_kern"):
        aotpack.compile(Fused(), args, target="cpu")

    @aotpack.register_lowering(negated)
    def _negated(x: Tensor) -> Tensor:
        return -x

    class Negated(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return negated(x) + 1

    model = aotpack.compile(Negated(), args[:1], target="cpu")
    torch.testing.assert_close(model(args[0]), 1 - args[0])


def launched(kernel: Any, **constants: Any) -> Callable[[Tensor], Tensor]:
    """A model's forward: out = kernel(x), one program for 4 elements."""

    def forward(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        wrap_triton(kernel)[(triton.cdiv(x.numel(), 4),)](x, out, x.numel(), **constants)
        return out

    return forward


def twice(x: Tensor) -> Tensor:
    x = x + 0
    wrap_triton(copy_kernel)[(1,)](x, x, x.numel(), BLOCK=32)
    return x


def transposed(x: Tensor) -> Tensor:
    return launched(copy_kernel, BLOCK=4)(x.t())


def described(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    wrap_triton(described_kernel)[(1,)](TensorDescriptor.from_tensor(x, [4, 4]), out)
    return out


@pytest.mark.row("S:H15", "S:H16")
@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (twice, "changes out_ptr, which is passed as x_ptr too; give it a copy"),
        (transposed, "takes a tensor that is not contiguous"),
        (launched(bounded_kernel), "a configuration of its kernel sets maxnreg"),
        (launched(worldly_kernel, BLOCK=4), "worldly_kernel uses WORLD, a dict"),
        (described, "described_kernel is passed tensor descriptors made on the host; make them in"),
        (launched(idle_kernel, BLOCK=4), "idle_kernel stores into none of its arguments"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_packaged_is_refused(
    forward: Callable[[Tensor], Tensor], words: str
) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return forward(x)

    with pytest.raises(UnsupportedError, match=words):
        x = torch.randn(4, 8)
        aotpack.compile(Model(), (x,), dynamic_shapes=({0: ROWS},), target="interpreter")
