"""Headers of generated code: the template, then the model's lines; no digest depends on them."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aotpack.ir.ops.quantization import read_quantization
from aotpack.render.emit.source_text import without_comments
from aotpack.render.environment import environment
from aotpack.render.languages import LANGUAGES
from aotpack.stages import KernelSource
from aotpack.target import CPU
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.quantize.layers import quantize
from tests.schedule.loops import Layer

from .models import H100, Attended, Gelu, Normed, Projection, Softmax, Total, rendered

PLACE = re.compile(r"\w+\.py:\d+: ")


class Rows(nn.Module):
    """Two small kernels that do not depend on each other: one launch."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.softmax(-1), y.argmax(-1)


class Twice(nn.Module):
    """The same kernel, of two lines."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        first = F.relu(x @ w)
        second = F.relu(first @ w)
        return F.relu(second @ w)


class Continued(nn.Module):
    # fmt: off
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + \
            1
    # fmt: on


HEADS = tuple(torch.zeros(1, 2, 64, 32) for _ in range(3))
WIDE_HEADS = tuple(torch.zeros(8, 16, 1024, 128, dtype=torch.bfloat16) for _ in range(3))
ONE = tuple(torch.zeros(1, 2, n, 32) for n in (1, 64, 64))


class Separable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 32, 1), nn.Conv2d(32, 4, 1)
        self.middle = nn.Conv2d(32, 32, 3, groups=32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.middle(self.first(x)))


def coded(module: nn.Module, x: torch.Tensor) -> nn.Module:
    calls = {"": (module, ((x,), {}))}
    quantize(calls, read_quantization("int8"), "a test", HostCopies())
    return module


KERNELS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], bool]] = {
    "kernel_loop.py.jinja": (Softmax(), (torch.zeros(64, 1000),), False),
    "kernel_matmul.py.jinja": (Projection(64, 48), (torch.zeros(70, 64),), False),
    "kernel_matmul_gluon.py.jinja": (
        Projection(1024, 2048).bfloat16(),
        (torch.zeros(512, 1024, dtype=torch.bfloat16),),
        False,
    ),
    "kernel_few_rows.py.jinja": (Projection(256, 48), (torch.zeros(1, 256),), False),
    "kernel_few_rows_gluon.py.jinja": (
        coded(Projection(512, 64).bfloat16(), torch.zeros(1, 512, dtype=torch.bfloat16)),
        (torch.zeros(1, 512, dtype=torch.bfloat16),),
        False,
    ),
    "kernel_one_row_gluon.py.jinja": (
        coded(Projection(2048, 64).bfloat16(), torch.zeros(1, 2048, dtype=torch.bfloat16)),
        (torch.zeros(1, 2048, dtype=torch.bfloat16),),
        False,
    ),
    "kernel_attention.py.jinja": (Attended(), HEADS, False),
    "kernel_attention_gluon.py.jinja": (Attended(), WIDE_HEADS, False),
    "kernel_horizontal.py.jinja": (Rows(), (torch.zeros(4, 9), torch.zeros(5, 7)), False),
    "kernel_turns.py.jinja": (Layer(20), (torch.zeros(3, 20), torch.zeros(4, 3, 20)), False),
    "kernel_loop.c.jinja": (Softmax(), (torch.zeros(64, 1000),), True),
    "kernel_matmul.c.jinja": (Projection(64, 48), (torch.zeros(70, 64),), True),
    "kernel_gemv.c.jinja": (Projection(64, 48), (torch.zeros(1, 64),), True),
    "kernel_depthwise.c.jinja": (Separable(), (torch.zeros(1, 3, 9, 9),), True),
    "kernel_attention.c.jinja": (Attended(), HEADS, True),
    "kernel_attention_gemv.c.jinja": (Attended(), ONE, True),
}


def header(kernel: KernelSource, text: str | None = None) -> list[str]:
    """The comments at the top of a kernel's text."""
    mark = "// " if kernel.language == "c" else "# "
    lines = (text or kernel.text).splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith(mark))
    return [line.removeprefix(mark) for line in lines[:end]]


@pytest.mark.parametrize("template", KERNELS)
def test_a_kernel_names_its_template_and_the_lines_of_the_model(template: str) -> None:
    module, args, on_host = KERNELS[template]
    product = rendered(module, *args, targets=(CPU,) if on_host else H100)
    texts = [(one, text) for one in product.kernels for text in (one.text, one.gluon_text)]
    found = [header(one, text) for one, text in texts if f" {template}\n" in text]
    assert found
    for first, *places in found:
        assert first == f"template: {template}"
        assert places and all(PLACE.match(place) for place in places)


def test_each_template_of_a_kernel_is_named() -> None:
    names = environment().list_templates(extensions=("jinja",))
    assert {name for name in names if name.startswith("kernel_")} == KERNELS.keys()


def test_a_launch_of_several_kernels_names_the_lines_of_all() -> None:
    (kernel,) = rendered(Rows(), torch.zeros(4, 9), torch.zeros(5, 7)).kernels
    _, *places = header(kernel)
    assert len(places) == 1 and "x.softmax(-1), y.argmax(-1)" in places[0]


def unnamed(text: str) -> list[str]:
    """The functions of a Triton kernel that name no template beside them; the entry is the last."""
    *functions, _ = re.finditer(r"^(# template: .*\n)?@triton.jit\ndef (\w+)", text, re.MULTILINE)
    return [found[2] for found in functions if found[1] is None]


def test_a_device_function_names_its_template_beside_it() -> None:
    (plain,) = rendered(Gelu(), torch.zeros(64), torch.zeros(64)).kernels
    assert plain.text.count("template: ") == 1

    class Scattered(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return x.scatter_add(0, n, v)

    index = torch.zeros(8, dtype=torch.int64)
    last = rendered(Scattered(), torch.zeros(64), index, torch.zeros(8)).kernels[-1]
    assert "\n# template: device_scatter.py.jinja\n@triton.jit\ndef scatter_sum(" in last.text


@pytest.mark.parametrize(
    ("module", "args"),
    [
        (Softmax(), (torch.zeros(64, 1000),)),
        (Softmax(), (torch.zeros(64, 50_021),)),
        (Normed(50_021), (torch.zeros(64, 50_021), torch.zeros(64, 50_021))),
        (Rows(), (torch.zeros(4, 9), torch.zeros(5, 7))),
        (Total(), (torch.zeros(2, 2**20),)),
    ],
    ids=["short", "long", "variance", "launch", "last-block"],
)
def test_every_function_but_the_entry_names_its_template(
    module: nn.Module, args: tuple[torch.Tensor, ...]
) -> None:
    texts = [kernel.text for kernel in rendered(module, *args).kernels]
    assert [unnamed(text) for text in texts] == [[] for _ in texts]
    assert any(text.count("@triton.jit") > 1 for text in texts)


def test_a_function_without_a_template_is_found() -> None:
    function = "@triton.jit\ndef {}(a, b):\n    return a\n"
    named = "# template: device_monoids.py.jinja\n" + function.format("g")
    assert unnamed(function.format("f") + named + function.format("k")) == ["f"]


def test_equal_kernels_of_two_lines_are_one() -> None:
    x = torch.zeros(64, 64)
    for targets in ((CPU,), H100):
        kernels = rendered(Twice(), x, x, targets=targets).kernels
        lines = [line for kernel in kernels for line in header(kernel)]
        words = ("first = ", "second = ", "return ")
        named = [word for word in words if any(word in line for line in lines)]
        assert named == ["first = ", "second = "]


class Moved(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # another line of the same operation
        return x.sum(-1)


@pytest.mark.parametrize("targets", [(CPU,), H100])
def test_a_kernel_has_the_same_name_from_another_line(targets: tuple[object, ...]) -> None:
    x = torch.zeros(64, 1000)
    (one,), (other,) = (
        rendered(module, x, targets=targets).kernels  # type: ignore[arg-type]
        for module in (Total(), Moved())
    )
    assert header(one) != header(other) and one.name == other.name
    (mark,) = (language.comment_mark for language in LANGUAGES if language.name == one.language)
    assert without_comments(one.text, mark) == without_comments(other.text, mark)


def test_no_comment_goes_on_in_the_next_line() -> None:
    (kernel,) = rendered(Continued(), torch.zeros(64), targets=(CPU,)).kernels
    assert len(header(kernel)) == 2 and not any(line.endswith("\\") for line in header(kernel))


@pytest.mark.parametrize("targets", [(CPU,), H100])
def test_the_wrapper_and_the_file_of_c_name_theirs(targets: tuple[object, ...]) -> None:
    product = rendered(Total(), torch.zeros(64, 1000), targets=targets)  # type: ignore[arg-type]
    assert product.wrapper.startswith("# template: wrapper.py.jinja\n")
    if targets == (CPU,):
        assert product.host_file.startswith("// template: kernels.c.jinja\n")
