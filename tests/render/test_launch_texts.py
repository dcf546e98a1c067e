"""Loops in the wrapper: as launches, as loops, or one of both by architecture and size."""

import torch
from torch.export import Dim

from aotpack.target import CPU, Target
from tests.schedule.loops import Layer

from .models import rendered

OLD, NEW = Target("cuda", 80), Target("cuda", 90)


def wrapper(*targets: Target, most: int = 0) -> str:
    """The wrapper of a layer of 20 units; with ``most`` rows, of 2 to so many."""
    args = (torch.randn(3, 20), torch.randn(4, 3, 20))
    rows = Dim("batch", min=2, max=most) if most else None
    shapes = {"first": {0: rows}, "xs": {1: rows}} if most else None
    return rendered(Layer(20), *args, dynamic_shapes=shapes, targets=targets).wrapper


def test_a_loop_that_all_targets_hold_is_two_launches() -> None:
    text = wrapper(NEW)
    assert "Loop" not in text and text.count("Launch(") == 2


def test_a_loop_that_no_target_holds_is_a_loop() -> None:
    for target in (OLD, CPU):
        text = wrapper(target)
        assert "Loop(4, " in text and "else" not in text


def test_architectures_choose() -> None:
    text = wrapper(OLD, NEW)
    assert text.count(") if arch >= 90 else") == 1 and "Loop(4, " in text


def test_rows_choose() -> None:
    text = wrapper(NEW, most=120)
    assert ") if batch <= 60 else" in text and "Loop" not in text
    text = wrapper(NEW, most=2000)
    assert ") if batch <= 240 else" in text and "Loop(4, " in text
