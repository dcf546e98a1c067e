"""Comparison of a result with eager's: the accuracy law, and the worst of several draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.e2e.law import Answers, accuracy_complaint, worst_complaints
from tools.op_samples import Sample, Verdict, dense, reference_of


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
    """The error of a result by the accuracy law."""
    if not isinstance(eager, torch.Tensor):
        return None if mine == eager else f"{mine!r}, not {eager!r}"
    if not isinstance(mine, torch.Tensor) or mine.dtype is not eager.dtype:
        return f"a {getattr(mine, 'dtype', type(mine).__name__)}, not {eager.dtype}"
    if mine.shape == eager.shape and torch.equal(mine, eager):
        return None
    return accuracy_complaint(mine, eager, reference)


def _names_equals(x: torch.Tensor, mine: Any, eager: Any) -> bool:
    """True for positions that differ from eager's but name equal elements, each only once."""
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
    """The verdict on the worst of several draws near the sample."""

    def answers(tensors: Sequence[torch.Tensor]) -> Answers:
        leaves = iter(tensors)
        moved = replace(
            sample,
            leaves=tuple(next(leaves) if isinstance(x, torch.Tensor) else x for x in sample.leaves),
        )
        eager = pytree.tree_leaves(moved.call([x.clone() for x in tensors]))
        given = [*example[:place], list(tensors), *example[place + 1 :]]
        ours = pytree.tree_leaves(model(pytree.tree_map(dense, given))[place])
        return ours, eager, reference_of(moved, eager)

    found = worst_complaints(sample.tensors, answers, sample.number, complain=_complaint)
    complaint = next(filter(None, found), None)
    if complaint is None:
        return Verdict(sample.number, "passed", verdict.words)
    return Verdict(sample.number, "wrong", f"{verdict.words}; on draws near it {complaint}")
