"""Products of few rows: what is requested before the wait, and how sums are made without a dot."""

import pytest
import torch
from torch import nn

from aotpack.early_start import FIRST_ARCH
from aotpack.ir.ops.quantization import read_quantization
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.quantize.layers import quantize as quantize_layers
from tests.ptx import ptx
from tests.render.models import Projection, kernel_text, rendered

BF16 = torch.bfloat16
WAIT = "gdc_wait()"


def text_of(rows: int, columns: int, depth: int, dtype: torch.dtype = BF16) -> str:
    model = Projection(depth, columns).to(dtype)
    return kernel_text(rendered(model, torch.zeros(rows, depth, dtype=dtype)))


def test_weights_are_requested_before_the_wait_and_inputs_after_it() -> None:
    before, _, after = text_of(1, 256, 2048).partition(WAIT)
    assert before.index("gdc_launch_dependents()") < before.index("tl.load(weight_ptr")
    assert "tl.load" in after and "weight_ptr" not in after
    loads = before.count("tl.load(weight_ptr") + before.count("tl.load(bias_ptr")
    assert before.count("tl.load") == loads and "bias_ptr" not in after


def test_a_bias_is_loaded_before_the_sums() -> None:
    assert (text := text_of(1, 256, 2048)).index("bias_ptr +") < text.index("acc +=")
    assert (text := text_of(16, 2048, 1024)).index("bias_ptr +") < text.index("for k_start")
    assert (text := text_of(64, 2048, 1024)).index("bias_ptr +") < text.index("for k_start")


def test_programs_of_many_tiles_load_a_bias_after_the_sums() -> None:
    assert (text := text_of(16384, 1024, 1024)).index("bias_ptr +") > text.index("for k_start")


class Growing(nn.Module):
    """A weight that the call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(64, 256, dtype=BF16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = nn.functional.linear(x, self.weight)  # type: ignore[arg-type]
        self.weight.add_(1)  # type: ignore[operator]
        return found


def test_a_weight_that_a_launch_writes_is_read_after_the_wait() -> None:
    (text,) = (
        one.text
        for one in rendered(Growing(), torch.zeros(1, 256, dtype=BF16)).kernels
        if "kernel_few_rows" in one.text
    )
    before, _, after = text.partition(WAIT)
    assert "tl.load" not in before and "tl.load(weight_ptr" in after


def test_an_input_is_read_after_the_wait() -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x @ y.t()

    args = torch.zeros(1, 256, dtype=BF16), torch.zeros(64, 256, dtype=BF16)
    before, _, after = kernel_text(rendered(Product(), *args)).partition(WAIT)
    assert "tl.load" not in before and "tl.load" in after


@pytest.mark.parametrize(("depth", "loops", "masked"), [(2048, 0, 0), (32768, 1, 0), (200, 0, 1)])
def test_long_sums_have_a_loop_and_gaps_a_mask(depth: int, loops: int, masked: int) -> None:
    text = text_of(1, 64, depth)
    assert text.count("for k_start in") == loops
    assert ("_mask = first0 <" in text) is bool(masked) and "tl.dot" not in text


@pytest.mark.parametrize(
    ("quantize", "depth", "run"),
    [
        ("int4", 2048, 16),
        ("int4:group=16", 1040, 1),
        ("int8:group=64", 2048, 16),
        ("int8", 2048, 1),
    ],
)
def test_neighbours_that_share_a_scale_are_added_before_it(quantize, depth, run) -> None:
    """Where groups do not end between the neighbours, half a row apart; and only those."""
    model = Projection(depth, 256).to(BF16)
    x = torch.zeros(1, depth, dtype=BF16)
    calls = {"": (model, ((x,), {}))}
    quantize_layers(calls, read_quantization(quantize), "a test", HostCopies())
    text = kernel_text(rendered(model, x))
    assert ("run = 16 * tl.arange(0, 32)" in text) is (run == 16)
    assert text.count("acc += tl.sum(tl.reshape(") == (text.count("acc += ") if run == 16 else 0)
    assert "scales_ptr" in text


def test_a_kernel_of_many_programs_starts_early_when_it_streams() -> None:
    (kernel,) = rendered(Projection(1024, 8192).to(BF16), torch.zeros(1, 1024, dtype=BF16)).kernels
    assert kernel.starts_early
    entry = ptx(kernel, FIRST_ARCH)
    assert entry.index("griddepcontrol.launch_dependents") < entry.index("ld.global.v4")
    assert entry.index("ld.global.v4") < entry.index("griddepcontrol.wait")


def test_the_kernel_before_admits_it_at_once() -> None:
    model = nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 512), nn.LayerNorm(512)).to(BF16)
    texts = [one.text for one in rendered(model, torch.zeros(1, 256, dtype=BF16)).kernels]
    (first, last) = (text for text in texts if "kernel_loop" in text)
    admission = "gdc_launch_dependents()"
    assert first.index(admission) < first.index(WAIT)
    assert last.index(admission) > last.index(WAIT)
