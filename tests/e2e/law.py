"""The accuracy law, held of one call and of the worst of several draws near it.

One call on which eager happens to be nearly exact says little of its usual error, the less the
fewer numbers a result has. So where a result misses the law by an error, numbers near the call's
are drawn, and the law is held of the worst errors, ours and eager's.
"""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import torch

FLOAT64_FACTOR = 16  # there is no wider reference: float64 answers may differ in a few last places
INEXACT = "off by"  # how a complaint about an error begins
DRAWS = 32


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The accuracy law, or what allows more. ``floor`` is the least scale: sums may cancel.

    ``unit`` is the least relative error of a number: what ends wide may have been narrow before.
    """

    factor: float = 1
    floor: float = 0
    unit: float = 0


LAW = Tolerance()


@dataclass(frozen=True, slots=True)
class Errors:
    """The largest error of ours and of eager's, and the largest number of the reference."""

    ours: float = 0.0
    eagers: float = 0.0
    scale: float = 0.0

    def worst(self, other: "Errors") -> "Errors":
        """Of two calls; what is NaN in one of them is NaN."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Errors(*(float(np.maximum(*pair)) for pair in pairs))

    def complaint(self, dtype: torch.dtype, tolerance: Tolerance) -> str | None:
        """ours <= 1.5 eagers + eps scale, in words when broken."""
        places = FLOAT64_FACTOR if dtype is torch.float64 else 1
        unit = max(places * torch.finfo(dtype).eps, tolerance.unit)
        law = tolerance.factor * (1.5 * self.eagers + unit * max(self.scale, tolerance.floor))
        if self.ours <= law:
            return None
        return f"{INEXACT} {self.ours:.3g}, allowed {law:.3g} (eager is off by {self.eagers:.3g})"


def accuracy_complaint(
    ours: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor,
    tolerance: Tolerance = LAW,
) -> str | None:
    """max|y - ref64| <= 1.5 max|eager - ref64| + eps max|ref64|, in words when broken."""
    if ours.shape != eager.shape:
        return f"the shape is {tuple(ours.shape)}, eager's is {tuple(eager.shape)}"
    if eager.is_complex():
        if not ours.is_complex():
            return f"it is {ours.dtype}, eager's is {eager.dtype}"
        ours, eager, reference = (
            torch.view_as_real(x.resolve_conj()) for x in (ours, eager, reference)
        )
    if not eager.dtype.is_floating_point:
        wrong = int((ours.to(eager.dtype) != eager).sum())
        return f"{wrong} of {eager.numel()} elements differ" if wrong else None
    y, e = ours.detach().double(), eager.detach().double()
    rounded = reference.to(eager.dtype).double()
    same = torch.isnan(y) == torch.isnan(e)
    same &= torch.isnan(y) | (y == e) | (y == rounded)
    wrong_ones = ~torch.isfinite(rounded) & ~same
    if bool(wrong_ones.any()):
        return f"NaN or infinity: {y[wrong_ones][:4].tolist()}, eager {e[wrong_ones][:4].tolist()}"
    return errors(ours, eager, reference).complaint(eager.dtype, tolerance)


def errors(ours: Any, eager: Any, reference: Any) -> Errors:
    """Of one call, where reference and eager are finite; where it alone overflows it is no measure.

    What has no errors (integers, numbers of Python) has none.
    """
    if not isinstance(eager, torch.Tensor) or not eager.is_floating_point():
        return Errors()
    y, e, r = (x.detach().double() for x in (ours, eager, reference))
    kept = torch.isfinite(reference.to(eager.dtype)) & torch.isfinite(e)
    if not bool(kept.any()):
        return Errors()
    y, e, r = y[kept], e[kept], r[kept]
    return Errors(*(float(x.abs().max()) for x in (y - r, e - r, r)))


Answers = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]
"""Results of one call: ours, eager's, the reference's."""


def worst_complaints(
    tensors: Sequence[torch.Tensor],
    answers: Callable[[Sequence[torch.Tensor]], Answers],
    seed: int = 0,
    tolerance: Tolerance = LAW,
    complain: Callable[[Any, Any, Any], str | None] = accuracy_complaint,
) -> list[str | None]:
    """How the worst errors of draws near a call break the law, for each result.

    ``tensors`` are the call's. A draw on which ``complain`` finds more than an error is a
    complaint by itself.
    """
    generator = torch.Generator().manual_seed(seed)
    ours, eager, reference = answers(tensors)
    dtypes = [getattr(result, "dtype", None) for result in eager]
    worst = list(map(errors, ours, eager, reference))
    graver: list[str | None] = [None] * len(worst)
    for _ in range(DRAWS):
        drawn = list(zip(*answers([_near(x, generator) for x in tensors]), strict=True))
        for place, complaint in enumerate(complain(*three) for three in drawn):
            if complaint is not None and not complaint.startswith(INEXACT):
                graver[place] = graver[place] or complaint
        worst = [one.worst(errors(*three)) for one, three in zip(worst, drawn, strict=True)]
    held = (
        one.complaint(dtype, tolerance) if dtype is not None and dtype.is_floating_point else None
        for one, dtype in zip(worst, dtypes, strict=True)
    )
    return [first or then for first, then in zip(graver, held, strict=True)]


def call_complaints(
    tensors: Sequence[torch.Tensor],
    answers: Callable[[Sequence[torch.Tensor]], Answers],
    tolerance: Tolerance = LAW,
) -> list[str | None]:
    """How each result of a call breaks the law; errors alone must break it over draws too."""
    found = [accuracy_complaint(*three, tolerance) for three in zip(*answers(tensors), strict=True)]
    if not any(one is not None and one.startswith(INEXACT) for one in found):
        return found
    over_draws = worst_complaints(tensors, answers, tolerance=tolerance)
    return [
        then if one is not None and one.startswith(INEXACT) else one
        for one, then in zip(found, over_draws, strict=True)
    ]


def _near(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers a little nearer to zero, so that none leaves the function's domain."""
    if not x.is_floating_point():
        return x
    factor = 1 - torch.rand(x.shape, generator=generator) * 2.0**-5
    return (x.double() * factor).to(x.dtype)
