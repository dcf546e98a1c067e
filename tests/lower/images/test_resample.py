"""Resizing and sampling between elements."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ints

SIZES = {"linear1d": (5,), "bilinear2d": (5, 7), "trilinear3d": (3, 4, 5), "bicubic2d": (5, 4)}


def infinite(image: torch.Tensor) -> torch.Tensor:
    """The image with an infinity, which spreads to what is read between elements."""
    made = image.clone()
    made.view(-1)[2] = float("inf")
    return made


def resizings(name: str) -> list[Case]:
    """Up, down, to one element, by factors, with corners aligned and not."""
    plane = SIZES[name]
    image = floats(2, 2, *plane)
    targets = [[9] * len(plane), [2] * len(plane), [1] * len(plane), list(plane)]
    found = [
        case(f"upsample_{name}.vec", image, target, align, None)
        for target in targets
        for align in (False, True)
    ]
    for factor in (2.0, 0.6, 1.7):
        factors = [factor] * len(plane)
        found += [case(f"upsample_{name}.vec", image, None, align, factors) for align in (0, 1)]
    few = [1.9, *[1.1] * (len(plane) - 1)]  # as many elements as there are, by a factor
    found.append(case(f"upsample_{name}.vec", image, None, False, few))
    found.append(case(f"upsample_{name}.vec", infinite(image), [*plane], False, None))
    half = torch.float16 if len(plane) == 3 else torch.bfloat16
    found.append(case(f"upsample_{name}.default", image.to(half), targets[0], False))
    found.append(case(f"upsample_{name}.default", image.double(), targets[0], True))
    return found


SPECIAL = torch.tensor([[-1.0, 1.0], [0.0, 5.3], [-2.7, 0.3], [1.0001, -1.2]]).view(1, 2, 2, 2)
NUMBERS = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.3])
NO_PLACES = torch.stack([NUMBERS, NUMBERS.flip(0)], dim=-1).view(1, 2, 2, 2)
GRIDS = [(floats(2, 3, 5, 4), floats(2, 6, 3, 2)), (floats(1, 1, 1, 7), SPECIAL)]

CASES = [
    *(found for name in SIZES for found in resizings(name)),
    *(
        case("grid_sampler_2d.default", *pair, mode, padding, align)
        for pair in GRIDS
        for mode in (0, 1, 2)
        for padding in (0, 1, 2)
        for align in (False, True)
    ),
    *(
        case("grid_sampler_2d.default", floats(1, 2, 4, 5), NO_PLACES, mode, padding, align)
        for mode in (0, 1)
        for padding in (1, 2)
        for align in (False, True)
    ),
    *(
        case("grid_sampler_3d.default", floats(1, 2, 3, 4, 5), floats(1, 2, 3, 2, 3), mode, pad, al)
        for mode in (0, 1)
        for pad in (0, 1, 2)
        for al in (False, True)
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (
            case("upsample_bilinear2d.vec", ints(1, 1, 4, 4).to(torch.uint8), [2, 2], False, None),
            "uint8 tensors are not accepted",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
