"""How a result is held against eager's: the accuracy law, and the worst of several draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.e2e.oracle import accuracy_complaint
from tools.op_samples import Sample, Verdict, dense, reference_of

INEXACT = "off by"  # how the oracle's complaint about an error begins
DRAWS = 32


def judged(sample: Sample, result: Any) -> Verdict:
    ours = pytree.tree_leaves(result)
    if len(ours) != len(sample.eager):
        return Verdict(sample.number, "wrong", f"{len(ours)} results, not {len(sample.eager)}")
    for mine, eager, reference in zip(ours, sample.eager, sample.reference, strict=True):
        complaint = _complaint(mine, eager, reference)
        if complaint and sample.is_free and _names_equals(sample.tensors[0], mine, eager):
            complaint = None
        if complaint:
            return Verdict(sample.number, "wrong", complaint)
    return Verdict(sample.number, "passed")


def _complaint(mine: Any, eager: Any, reference: Any) -> str | None:
    """How a result breaks the accuracy law."""
    if not isinstance(eager, torch.Tensor):
        return None if mine == eager else f"{mine!r}, not {eager!r}"
    if not isinstance(mine, torch.Tensor) or mine.dtype is not eager.dtype:
        return f"a {getattr(mine, 'dtype', type(mine).__name__)}, not {eager.dtype}"
    if mine.shape == eager.shape and torch.equal(mine, eager):
        return None
    return accuracy_complaint(mine, eager, reference)


def _names_equals(x: torch.Tensor, mine: Any, eager: Any) -> bool:
    """True for positions that differ from eager's but name equal elements, each but once."""
    if eager.dtype is not torch.int64 or mine.shape != eager.shape:
        return False
    for dim in range(x.ndim):
        ours, theirs = mine, eager
        if ours.ndim < x.ndim:
            ours, theirs = ours.unsqueeze(dim), theirs.unsqueeze(dim)
        others = [k for k in range(x.ndim) if k != dim]
        fits = ours.ndim == x.ndim and all(ours.shape[k] == x.shape[k] for k in others)
        if not fits or not bool(((ours >= 0) & (ours < x.shape[dim])).all()):
            continue
        equal = torch.equal(x.gather(dim, ours), x.gather(dim, theirs))
        if equal and bool((ours.sort(dim).values.diff(dim=dim) != 0).all()):
            return True
    return False


def redrawn(
    model: Any, example: list[list[torch.Tensor]], place: int, sample: Sample, verdict: Verdict
) -> Verdict:
    """The verdict on the worst of several draws.

    One draw on which eager happens to be nearly exact says little of its usual error. So numbers
    near the sample's are drawn, and the law is held of the worst errors, ours and eager's.
    """
    worst: list[tuple[float, float, float]] = []
    generator = torch.Generator().manual_seed(sample.number)
    for draw in range(DRAWS + 1):
        tensors = [_shrunk(x, generator) if draw else x for x in sample.tensors]
        given = [*example[:place], tensors, *example[place + 1 :]]
        leaves = iter(tensors)
        moved = replace(
            sample,
            leaves=tuple(next(leaves) if isinstance(x, torch.Tensor) else x for x in sample.leaves),
        )
        eager = pytree.tree_leaves(moved.call([x.clone() for x in tensors]))
        reference = reference_of(moved, eager)
        ours = pytree.tree_leaves(model(pytree.tree_map(dense, given))[place])
        errors = [_errors(*three) for three in zip(ours, eager, reference, strict=True)]
        if draw and any(_is_unlike(*three) for three in zip(ours, eager, reference, strict=True)):
            return verdict
        worst = [tuple(map(max, *pair)) for pair in zip(worst or errors, errors, strict=True)]
    for result, (ours_off, eager_off, scale) in zip(sample.eager, worst, strict=True):
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            allowed = 1.5 * eager_off + torch.finfo(result.dtype).eps * scale
            if not ours_off <= allowed:
                return Verdict(sample.number, "wrong", f"{verdict.words}; on the worst draw too")
    return Verdict(sample.number, "passed", verdict.words)


def _shrunk(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers a little nearer to zero, so that none leaves the function's domain."""
    if not x.is_floating_point():
        return x
    factor = 1 - torch.rand(x.shape, generator=generator) * 2.0**-5
    return (x * factor).to(x.dtype)


def _errors(mine: Any, eager: Any, reference: Any) -> tuple[float, float, float]:
    """Our largest error, eager's, and the largest number, where all are finite."""
    if not isinstance(eager, torch.Tensor) or not eager.is_floating_point() or not eager.numel():
        return 0.0, 0.0, 0.0
    y, e, r = mine.double(), eager.double(), reference.double()
    kept = torch.isfinite(y) & torch.isfinite(e) & torch.isfinite(r)
    if not bool(kept.any()):
        return 0.0, 0.0, 0.0
    y, e, r = y[kept], e[kept], r[kept]
    return float((y - r).abs().max()), float((e - r).abs().max()), float(r.abs().max())


def _is_unlike(mine: Any, eager: Any, reference: Any) -> bool:
    """True when a result differs by more than an error."""
    complaint = _complaint(mine, eager, reference)
    return complaint is not None and not complaint.startswith(INEXACT)
