"""Every form of a package is timed on the processors of this machine."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aotpack.runtime.devices.timing import hardware
from aotpack.runtime.errors import AotpackError, ArgumentError
from aotpack.runtime.tuning.tune import tune, tune_into
from aotpack.runtime.tuning_file import read_tuning
from aotpack.stages import Decisions
from aotpack.target import CPU
from aotpack.tune.decisions import quickest
from tests.runtime.packages import rewrite
from tests.tune.packages import PackedWeight, opened, packed


@pytest.mark.row("C:K1", "S:N7")
def test_every_form_of_every_choice_is_timed(package: PackedWeight) -> None:
    lines: list[str] = []
    ((place, choices),) = tune(package.folder, "cpu", report=lines.append).items()
    with opened(package) as model:
        assert place == (hardware(model.device), "cpu")
        assert tuple(choices) == model.manifest.choices
    assert len(lines) == len(choices) == 4
    assert all(re.search(r" at b = (5|64): [\d.]+ us, [\d.]+x by ", line) for line in lines)
    for key, (times,) in choices.items():
        assert times.sizes == {"b": 5 if "while b <= 16" in key else 64}
        assert len(times.microseconds) == 2 and min(times.microseconds.values()) > 0
        assert key.split(" x ")[0] in times.microseconds


@pytest.mark.row("S:N3")
def test_a_folder_that_does_not_exist_is_refused_before_anything_is_timed(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "tuning.json"
    timed: list[str] = []
    with pytest.raises(AotpackError, match=r"tuning.json: its folder does not exist; make it"):
        tune_into(file, tmp_path, None, None, timed.append)
    with pytest.raises(ArgumentError, match="it is a folder; pass a file to -o"):
        tune_into(tmp_path, tmp_path, None, None, timed.append)
    assert timed == []


def test_a_form_that_spills_is_taken_only_where_all_do(tmp_path: Path) -> None:
    package = packed("products", CPU, tmp_path, Decisions(2))
    key = package.product.rendered.choices[0]
    fused = key.split(" x ")[0]

    def timed(spilling: list[str]) -> tuple[set[str], str]:
        """The forms that have times, and the one that is taken."""
        file = package.folder / "manifest.json"
        manifest = json.loads(file.read_text())
        for name in spilling:
            manifest["kernels"][name]["binaries"]["cpu"]["spills"] = 256
        rewrite(package.folder, manifest)
        found = tune(package.folder, "cpu")
        (choices,) = found.values()
        return set(choices[key][0].microseconds), quickest(found)["cpu", key]

    names, taken = timed([fused])
    assert names == {taken} != {fused}
    names, _ = timed([kernel.name for kernel in package.product.rendered.kernels])
    assert names == {taken, fused}


def test_the_package_tunes_itself_without_compilers(package: PackedWeight, tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    program = (
        "import runpy, sys\n"
        "for name in ('torch', 'triton', 'aotpack', 'cuda', 'jinja2'): sys.modules[name] = None\n"
        f"sys.argv = ['products', 'tune', '-o', {str(file)!r}]\n"
        "runpy.run_module('products', run_name='__main__')"
    )
    command = [sys.executable, "-B", "-c", program]
    subprocess.run(command, check=True, cwd=package.folder.parent, env={}, capture_output=True)
    ((_, choices),) = read_tuning(file).items()
    assert len(choices) == 4
