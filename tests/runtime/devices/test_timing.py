"""The time of issued work on a device whose host waits for it, and what a device is called."""

import platform
import time
from pathlib import Path

import pytest

from aotpack.runtime.devices.timing import hardware, seconds
from tests.runtime.fake_device import FakeDevice


class Worked:
    """Work that takes a while on the device: the host sees it when it waits."""

    def __init__(self, *durations: float) -> None:
        """One after the other; the last again and again."""
        self.device = FakeDevice()
        self.device.synchronize = self.wait  # type: ignore[method-assign]
        self.durations = list(durations)
        self.due = 0.0

    def issue(self, stream: int) -> None:
        self.due = self.durations.pop(0) if len(self.durations) > 1 else self.durations[0]

    def wait(self, stream: int | None) -> None:
        time.sleep(self.due)
        self.due = 0.0


def test_work_counts_until_it_is_done_and_what_happens_once_does_not() -> None:
    work = Worked(0.1, 0.1, 0.004)
    assert 0.004 <= seconds(work.device, work.issue) < 0.03


def test_work_that_fails_gives_no_time() -> None:
    def failing(stream: int) -> None:
        raise ValueError("launching")

    with pytest.raises(ValueError, match="launching"):
        seconds(FakeDevice(), failing)


def test_a_processor_goes_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "processor: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Some CPU @ 2 GHz\n"
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert hardware(FakeDevice()) == "Some CPU @ 2 GHz"


def test_where_the_name_is_not_told_it_is_the_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    assert hardware(FakeDevice()) == platform.machine()
    monkeypatch.setattr(Path, "read_text", lambda path: "processor: 0\n")
    assert hardware(FakeDevice()) == platform.machine()
