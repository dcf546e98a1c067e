"""A few of the interrupts that ``tools/interrupts.py`` fires by the hundred thousand."""

from pathlib import Path

import pytest

from tools.interrupts import storm


@pytest.mark.parametrize(("device", "count"), [("cpu", 300), ("interpreter", 40)])
def test_interrupts_at_random_moments_damage_nothing(
    tmp_path: Path, device: str, count: int
) -> None:
    report = storm(device, count, 1, tmp_path)
    assert report.interrupts >= count and report.checks >= count // 4
    assert report.closes >= 1 and report.damaged == 0
