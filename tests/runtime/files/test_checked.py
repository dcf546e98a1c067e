"""Files read by their hash: what is no file, too large or damaged."""

import hashlib
import os
from pathlib import Path

import pytest

from aotpack.runtime import PackageError
from aotpack.runtime.files.checked import read_bounded, read_checked, sha256_of

SHA = hashlib.sha256(b"content").hexdigest()


def test_the_bytes_of_the_manifest_are_read(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"content")
    (tmp_path / "a").symlink_to(tmp_path / "store")  # as installers with a store of files do
    assert read_checked(tmp_path, "a", SHA) == b"content"


def test_other_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"Content")
    with pytest.raises(PackageError, match="a is damaged: its sha256 is"):
        read_checked(tmp_path, "a", SHA)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    no_file = "it is no regular file"
    for name, reason in (("pipe", no_file), ("zero", no_file), ("folder", "Is a directory")):
        with pytest.raises(PackageError, match=f"{name} cannot be read .{reason}"):
            read_checked(tmp_path, name, SHA)
    with pytest.raises(PackageError, match=r"lost cannot be read .No such file"):
        read_checked(tmp_path, "lost", SHA)


def test_a_file_above_its_bound_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 40)
    with pytest.raises(PackageError, match="has 1,099,511,627,776 bytes; accepted: 1,000 at most"):
        read_bounded(tmp_path / "large", 1000, "reading it")


def test_a_sum_is_that_of_the_rest_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"begin" + bytes(5 << 20))
    with (tmp_path / "a").open("rb") as file:
        file.seek(5)
        assert sha256_of(file) == hashlib.sha256(bytes(5 << 20)).hexdigest()
        assert sha256_of(file) == hashlib.sha256(b"").hexdigest()
