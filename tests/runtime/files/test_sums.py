"""SHA256SUMS, as the program sha256sum reads and writes it."""

import subprocess
from pathlib import Path

import pytest

from aotpack.emit.package import reseal
from aotpack.runtime import PackageError
from aotpack.runtime.files.sums import SUMS, read_sums, sums_text

SHA = "0" * 64


def test_the_program_reads_what_is_written(package: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=package, check=True)
    files = {p.relative_to(package).as_posix() for p in package.rglob("*") if p.is_file()}
    assert {*read_sums(package)} == files - {SUMS}
    (package / "wrapper.py").write_text("")
    reseal(package)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=package, check=True)


def test_paths_are_sorted(tmp_path: Path) -> None:
    (tmp_path / SUMS).write_bytes(sums_text({"b": SHA, "a": SHA}))
    assert list(read_sums(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        *(f"{SHA}  ../a", f"{SHA}  /a", f"{SHA} a", f"{SHA[1:]}  a"),
        *(f"{SHA}  a\n{SHA}  a", "", "\0", "\xff"),
    ],
)
def test_other_lines_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / SUMS).write_bytes(f"{SHA}  z\n{line}\n".encode("latin-1"))
    with pytest.raises(PackageError, match=r"SHA256SUMS, line \d, is not a hash and another file"):
        read_sums(tmp_path)
