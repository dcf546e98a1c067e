"""Models of a few lines, and their kernels as text."""

import re
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from aotpack.devices import H200, Gpu
from aotpack.ir.program import Program
from aotpack.render import render
from aotpack.schedule import schedule
from aotpack.stages import Rendered
from aotpack.target import CPU, Target
from tests.schedule.programs import lowered, scheduled

H100 = (Target("cuda", 90),)
DIGEST = re.compile(r"(\b\w+?)_([0-9a-f]{8})(?=\b|_)")
COMMENT = re.compile(r"\s*(?:# |//)(?!\s*template:)")
FUNCTION = re.DOTALL | re.MULTILINE


class Gelu(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + y.to(x.dtype), approximate="tanh")


class Softmax(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1)


class Total(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(-1)


class First(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.topk(self.count))


class Normed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.norm(x + y)


class ColumnSum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(0)


class Projection(nn.Module):
    def __init__(self, k: int, n: int) -> None:
        super().__init__()
        self.fc = nn.Linear(k, n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.fc(x))


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids) * 2


class Collected(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.index_add(0, n, y)


class Concatenated(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], 1) + 1


class Attended(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def rendered(
    module: nn.Module,
    *args: torch.Tensor,
    targets: tuple[Target, ...] = H100,
    dynamic_shapes: Any = None,
) -> Rendered:
    """All kernels of a model."""
    return render(scheduled(module, *args, dynamic_shapes=dynamic_shapes), targets)


def rendered_program(
    program: Program, targets: tuple[Target, ...] = H100, gpu: Gpu = H200
) -> Rendered:
    """All kernels of a program made by hand."""
    return render(schedule(lowered(program), gpu=gpu), targets)


def c_kernel(program: Program) -> str:
    """The only kernel of a program on processors, as ``kernel_text``."""
    return kernel_text(rendered_program(program, (CPU,)))


def triton_kernel(program: Program) -> str:
    """The only kernel of a program on a GPU, as ``kernel_text``."""
    return kernel_text(rendered_program(program))


def kernel_text(product: Rendered) -> str:
    """The only text, as ``shown``, but for copies of weights in panels.

    Variants for divisible sizes may share a text.
    """
    kernels = [one for one in product.kernels if not one.name.startswith("panels_")]
    texts = {shown(kernel.text) for kernel in kernels}
    assert len(texts) == 1, f"kernels: {', '.join(kernel.name for kernel in product.kernels)}"
    return texts.pop()


def shown(text: str) -> str:
    """A text without digests in names, and without comments, which name lines of torch.

    Equal names with other digests are numbered. The comment that names the template stays.
    """
    digests: dict[str, list[str]] = {}

    def name(found: re.Match[str]) -> str:
        known = digests.setdefault(found[1], [])
        if found[2] not in known:
            known.append(found[2])
        number = known.index(found[2])
        return f"{found[1]}_{number + 1}" if number else found[1]

    kept = (line for line in text.splitlines() if not COMMENT.match(line))
    return "\n".join(DIGEST.sub(name, line).rstrip() for line in kept).strip("\n") + "\n"


def functions_of(text: str, *names: str) -> str:
    """The functions of a C kernel with these endings, under its comments."""
    comments = [line for line in text.splitlines() if line.startswith("//")]
    found = (re.search(rf"^AOT_INLINE void \w+_{name}\(.*?^}}$", text, FUNCTION) for name in names)
    functions = [match[0] for match in found if match]
    assert len(functions) == len(names), f"not all of {', '.join(names)} are in\n{text}"
    return "\n\n".join([*comments, *functions]) + "\n"


def entry_of(text: str) -> str:
    """The last function of a Triton kernel, under the templates of all: what a launch runs."""
    comments = dict.fromkeys(line for line in text.splitlines() if line.startswith("#"))
    return "\n".join([*comments, "@triton.jit" + text.rpartition("@triton.jit")[2]])
