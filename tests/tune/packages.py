"""Packages with several forms of every launch, and files that make the runtime take the n-th."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aotpack.devices import H200, Gpu
from aotpack.emit import write_package
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.runtime import Model, load
from aotpack.runtime.devices.timing import hardware
from aotpack.runtime.plan import Form
from aotpack.runtime.tuning_file import Times, Tuning, form_name, tuning_text
from aotpack.stages import Decisions, Precompiled
from aotpack.target import Target

DIM = torch.export.Dim


class Rows(nn.Module):
    """Reductions of rows and of columns, and a kernel of one axis."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(48)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.norm(x).softmax(-1).cumsum(1), x.transpose(0, 1).sum(1)


class Products(nn.Module):
    """Products with few rows, with an activation behind the first."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(40, 24), nn.Linear(24, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.outer(torch.nn.functional.gelu(self.inner(x)))


class Attended(nn.Module):
    """Attention over few positions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)


class Parted(nn.Module):
    """A softmax behind a sum that is stored, and reductions that share what they read."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = x + y
        return z, z.softmax(-1), x.amax(0), (x * y).sum(0)


class Apart(nn.Module):
    """Small kernels that share a launch on GPUs, and one that needs them all."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = x.softmax(-1), (y + 1).softmax(-1)
        return (a.sum(0) + b.sum(0)).cumsum(0)


CASES: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], Any]] = {
    "rows": (Rows(), (torch.randn(6, 48),), {"x": {0: DIM("b", min=1, max=64)}}),
    "products": (Products(), (torch.randn(5, 40),), {"x": {0: DIM("b", min=1, max=64)}}),
    "attention": (Attended(), (torch.randn(1, 2, 20, 16),), None),
    "parted": (Parted(), (torch.randn(6, 40), torch.randn(6, 40)), None),
    "apart": (Apart(), (torch.randn(3, 40), torch.randn(3, 40)), None),
}


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A package on disk, and what it was made of."""

    folder: Path
    product: Precompiled

    @property
    def device(self) -> Any:
        """Where it runs on this machine."""
        return "cpu" if self.product.targets[0].backend == "cpu" else InterpreterDevice()


def packed(
    name: str, target: Target, folder: Path, decisions: Decisions, gpu: Gpu = H200
) -> PackedWeight:
    """A case as a package."""
    torch.manual_seed(0)
    module, args, dynamic = CASES[name]
    source = Source(module.eval(), args, None, dynamic, name)
    options = BuildOptions((target,), decisions=decisions, gpu=gpu)
    product = Build(source, options).precompiled
    write_package(product, folder / name)
    return PackedWeight(folder / name, product)


def forms_of(model: Model, *sizes: int) -> dict[str, tuple[Form, ...]]:
    """The forms of each launch that has several, by key."""
    found: dict[str, tuple[Form, ...]] = {}

    def pick(key: str, *forms: Form) -> Form:
        found[key] = forms
        return forms[0]

    model.plan_with(sizes, pick)
    return found


def preferring(model: Model, number: int, *sizes: int) -> Tuning:
    """Times by which the n-th form of each launch is the quickest, or the last where fewer are."""
    choices = {}
    for key, forms in forms_of(model, *sizes).items():
        best = min(number, len(forms) - 1)
        times = {form_name(form): 1.0 if n == best else 9.0 for n, form in enumerate(forms)}
        choices[key] = (Times({}, times),)
    return {(hardware(model.device), model.target): choices}


def file_of(tuning: Tuning, folder: Path) -> Path:
    """A tuning file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tuning.json"
    file.write_text(tuning_text(tuning))
    return file


def opened(package: PackedWeight, tuning: Path | None = None) -> Model:
    """The package's model on the device of its target."""
    return load(package.folder, package.device, tuning=tuning)
