"""Resizing without aliasing: shrinking, growing and both, by sizes and by factors."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from aotpack.errors import UnsupportedError
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.target import CPU
from tests.e2e.oracle import TARGETS, agree, compile_all
from tests.lower.oracle import Case, case, floats, ints

IMAGE = torch.randn(2, 3, 11, 9, generator=torch.Generator().manual_seed(0))
HOLES = IMAGE.where(IMAGE < 1.8, torch.nan).where(IMAGE > -1.8, torch.inf)
PLANES = ([3, 4], [17, 2], [20, 23], [1, 1], [11, 9])
NAMES = ("bilinear", "bicubic", "lanczos")


def resizings(name: str) -> list[Case]:
    corners = (False,) if name == "lanczos" else (False, True)
    operator = f"_upsample_{name}2d_aa"
    return [
        *(case(f"{operator}.vec", IMAGE, plane, a, None) for plane in PLANES for a in corners),
        *(case(f"{operator}.vec", IMAGE, None, a, [0.37, 1.6]) for a in corners),
        case(f"{operator}.default", IMAGE, [4, 14], False, 0.37, None),
        case(f"{operator}.vec", HOLES, [3, 4], False, None),
        case(f"{operator}.vec", IMAGE.double(), [4, 14], False, None),
        case(f"{operator}.vec", floats(0, 2, 3, 3), [2, 2], False, None),
    ]


@pytest.mark.parametrize("case", [c for name in NAMES for c in resizings(name)], ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


class Doubled(torch.nn.Module):
    """An image of any size, by a factor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x.sigmoid(), scale_factor=2.0, mode="bicubic", antialias=True)


def test_a_factor_takes_images_of_any_size() -> None:
    height = Dim("height", min=10, max=64)
    compiled = compile_all(Doubled(), (floats(1, 2, 10, 3),), None, ({2: height},), TARGETS)
    for rows in (10, 17):
        agree(compiled, (floats(1, 2, rows, 3),))


class Resized(torch.nn.Module):
    def __init__(self, size: int, *, transposed: bool = False) -> None:
        super().__init__()
        self.size, self.transposed = size, transposed

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = (x.shape[2], self.size) if self.transposed else (self.size, self.size)
        plain = F.interpolate(x, size=size, mode="bilinear", antialias=True)
        return plain, F.interpolate(
            x, size=size, mode="bilinear", antialias=True, align_corners=True
        )


HEIGHT = Dim("height", min=2, max=64)


def test_a_fixed_size_takes_images_of_any_size() -> None:
    compiled = compile_all(Resized(5), (floats(1, 2, 10, 6),), None, ({2: HEIGHT},), (CPU,))
    drawn = torch.Generator().manual_seed(0)
    for rows in (2, 5, 31):
        agree(compiled, (torch.randn(1, 2, rows, 6, generator=drawn),))


def test_images_of_any_size_are_halved() -> None:
    class Halved(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)

    compiled = compile_all(Halved(), (floats(1, 2, 8, 9),), None, ({3: HEIGHT},), (CPU,))
    drawn = torch.Generator().manual_seed(0)
    for columns in (4, 7, 64):  # eager gives each row of a result of one column the first
        agree(compiled, (torch.randn(1, 2, 8, columns, generator=drawn),))


def test_a_dynamic_result_without_a_factor_is_refused() -> None:
    model = Resized(5, transposed=True)
    source = Source(model, (floats(1, 2, 10, 6),), None, ({2: HEIGHT},))
    with pytest.raises(UnsupportedError, match="accepted are constant sizes .* or antialias=False"):
        _ = Build(source, BuildOptions((CPU,))).rendered


def test_bytes_are_refused() -> None:
    bytes_ = ints(1, 1, 4, 4).to(torch.uint8)
    with pytest.raises(UnsupportedError, match="uint8 tensors are not accepted"):
        case("_upsample_bilinear2d_aa.vec", bytes_, [2, 2], False, None).check()
