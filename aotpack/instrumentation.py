"""Verifies, times, dumps and shows products after each stage and each pass."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from aotpack.errors import UsageError
from aotpack.ir.passes import AfterPass, PassRun, verify_each
from aotpack.knobs import read_knobs
from aotpack.progress import Quiet, Reporter
from aotpack.stages import Product

Made = TypeVar("Made", bound=Product)
Args = ParamSpec("Args")
STAGES = {  # verbs by product
    "traced": "trace",
    "lowered": "lower",
    "scheduled": "schedule",
    "rendered": "render",
    "precompiled": "precompile",
    "emitted": "emit",
}


@dataclass(slots=True)
class Instrumentation:
    """The hook of a build: makes each product, and is called after each pass.

    ``look`` receives each product, ``look_after`` the stage and each pass. ``dump`` is a folder for
    all of them as text. Programs and schedules are always verified; outputs of passes only with
    ``verifies_passes``, ``dump`` or ``look_after``.
    """

    reporter: Reporter = field(default_factory=Quiet)
    look: Callable[[str, Any], None] | None = None
    look_after: Callable[[str, PassRun], None] | None = None
    dump: Path | None = field(default_factory=lambda: read_knobs().dump)
    verifies_passes: bool = field(default_factory=lambda: read_knobs().verifies_passes)
    seconds: dict[str, float] = field(default_factory=dict)
    pass_seconds: dict[str, list[float]] = field(default_factory=dict)  # of runs, by title

    def __call__(
        self, stage: str, verb: Callable[Args, Made], *args: Args.args, **options: Args.kwargs
    ) -> Made:
        """Make a product, then verify, show and dump it."""
        self.reporter.begin(STAGES[stage])
        start = time.perf_counter()
        product = verb(*args, **options)
        self.seconds[stage] = time.perf_counter() - start
        product.verify()
        if self.look is not None:
            self.look(stage, product)
        self._write(f"{_number(stage)}_{stage}", product.as_text)
        self._write_times(stage)
        return product

    def after_passes_of(self, stage: str) -> AfterPass:
        """The callback for the runner of a stage's passes."""
        return partial(self._after_pass, stage)

    def _after_pass(self, stage: str, run: PassRun) -> None:
        """Dump before verifying, so that an illegal program can be read."""
        title = pass_title(stage, run)
        times = self.pass_seconds.setdefault(title, [])
        times.append(run.seconds)
        self._write(title, run.state.as_text, is_first=len(times) == 1)
        if self.verifies_passes or self.dump is not None or self.look_after is not None:
            verify_each(run)
        if self.look_after is not None:
            self.look_after(stage, run)

    def _write(self, title: str, as_text: Callable[[], str], *, is_first: bool = True) -> None:
        """Write a file of the dump; repeated runs of a pass are appended."""
        if self.dump is not None:
            text = as_text()
            try:
                self.dump.mkdir(parents=True, exist_ok=True)
                with (self.dump / f"{title}.txt").open("w" if is_first else "a") as file:
                    file.write(text)
            except OSError as error:
                raise UsageError(
                    f"writing {title}.txt into the folder of dumps {self.dump} failed: "
                    f"{error.strerror or error}; name another in AOTPACK_DUMP"
                ) from error

    def _write_times(self, stage: str) -> None:
        """Write the time of each pass; that of ``schedule_parts`` includes the parts."""
        number = _number(stage)
        times = {t: s for t, s in self.pass_seconds.items() if t.startswith(f"{number}_")}
        lines = [f"{sum(s):9.4f} s  {len(s):3} runs  {t}\n" for t, s in sorted(times.items())]
        if lines:
            self._write(f"{number}_passes", lambda: "".join(lines))


def pass_title(stage: str, run: PassRun) -> str:
    """The name of a pass in the dump: ``03_10_realize``."""
    name = re.sub(r"[^\w.-]", "_", run.name)
    return f"{_number(stage)}_{run.number:02}_{name}"


def _number(stage: str) -> str:
    return f"{list(STAGES).index(stage) + 1:02}"
