"""Folders of builds go with them, and those of killed builds with the next one."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from aotpack.errors import AotpackError
from aotpack.temporary import locked_folder, temporary_folder

ROOT = Path(__file__).parents[1]
BUILD = """
import sys
from pathlib import Path
from aotpack.temporary import locked_folder

with locked_folder(Path(sys.argv[1]), ".aotpack-") as folder:
    (folder / "half").write_bytes(bytes(1000))
    print(folder, flush=True)
    sys.stdin.read()
"""


def running_build(out: Path) -> tuple["subprocess.Popen[str]", Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(out)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_killed_build_is_cleaned_up_by_the_next_one_and_a_running_one_is_not(
    tmp_path: Path,
) -> None:
    killed, left = running_build(tmp_path)
    running, kept = running_build(tmp_path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.is_dir()
        with locked_folder(tmp_path, ".aotpack-") as folder:
            assert not left.exists() and kept.is_dir() and folder.is_dir()
    finally:
        running.communicate("")
        killed.communicate()
    assert list(tmp_path.iterdir()) == []


def test_only_own_folders_of_that_name_are_removed(tmp_path: Path) -> None:
    mine, other, link = (tmp_path / name for name in ("aotpack-build-1", "mine", "aotpack-build-2"))
    file = tmp_path / "aotpack-build-3"
    mine.mkdir()
    other.mkdir()
    link.symlink_to(other)
    file.write_text("no folder")
    with locked_folder(tmp_path, "aotpack-build-"):
        assert not mine.exists() and other.is_dir() and link.is_symlink() and file.exists()


def test_another_users_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "aotpack-build-1"
    theirs.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
    with locked_folder(tmp_path, "aotpack-build-"):
        assert theirs.is_dir()


def test_a_failure_inside_is_told_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with (
        pytest.raises(AotpackError, match="^doing x: .*into .*gone failed: No such file.*TMPDIR"),
        temporary_folder("doing x"),
    ):
        pass
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="not of the disk"), temporary_folder("doing x") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        raise ValueError("not of the disk")
    with pytest.raises(TimeoutError), temporary_folder("doing x"):
        raise TimeoutError("an alarm of the caller's")
    assert list(tmp_path.iterdir()) == []


def test_no_folder_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with (
        pytest.raises(AotpackError, match="^doing x: no folder for temporary files .*TMPDIR"),
        temporary_folder("doing x"),
    ):
        pass
