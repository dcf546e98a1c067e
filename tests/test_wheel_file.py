"""Wheels that are damaged or made to mislead: inspect and verify answer in words."""

import base64
import hashlib
import json
import re
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aotpack.cli import main
from aotpack.emit import emit
from aotpack.emit.names import Identity
from tests.emit.builds import tiny

Contents = dict[str, bytes]
NAME = "tiny_model"
GOLDEN = f"{NAME}/golden.safetensors"
MANIFEST = f"{NAME}/manifest.json"
SOURCE = f"{NAME}/kernels/source/k1.py"
CODE = f"{NAME}/kernels/sm_80/k1.cubin"
RECORD = f"{NAME}-1.dist-info/RECORD"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emit(tiny(), Identity(NAME, "1"), tmp_path_factory.mktemp("dist")).wheel


def changed(wheel: Path, tmp_path: Path, change: Callable[[Contents], object]) -> Path:
    """Another wheel, whose contents a function has changed."""
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    change(contents)
    with zipfile.ZipFile(tmp_path / wheel.name, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return tmp_path / wheel.name


def put(file: str, *path: object) -> Callable[[Contents], object]:
    """A change of one value of a JSON file: the keys that lead to it, then the value."""

    def change(contents: Contents) -> None:
        data = inner = json.loads(contents[f"{NAME}/{file}"])
        for key in path[:-2]:
            inner = inner[key]
        inner[path[-2]] = path[-1]
        contents[f"{NAME}/{file}"] = json.dumps(data).encode()
        sha256 = hashlib.sha256(contents[f"{NAME}/{file}"]).hexdigest()
        sums = contents[f"{NAME}/SHA256SUMS"].decode().splitlines()
        lines = [f"{sha256}  {file}" if line.endswith(f" {file}") else line for line in sums]
        contents[f"{NAME}/SHA256SUMS"] = "\n".join(lines).encode()

    return change


def failed(capsys: pytest.CaptureFixture[str], verb: str, wheel: Path) -> str:
    assert main([verb, str(wheel)]) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


def test_a_whole_wheel_is_shown(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(wheel)]) == 0
    assert "tiny_model 1" in capsys.readouterr().out


def test_text_of_a_wheel_does_not_rule_the_terminal(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "\x1b[31m \x9b31m \u202e\ntargets sm_90"
    file = changed(wheel, tmp_path, put("manifest.json", "golden", "note", note))
    assert main(["inspect", str(file), "--html", str(tmp_path / "r.html")]) == 0
    assert main(["inspect", str(file)]) == 0
    shown = r"\x1b[31m \x9b31m \u202e\ntargets sm_90"
    for text in (capsys.readouterr().out, (tmp_path / "r.html").read_text()):
        assert shown in text and not {*"\x1b\x9b\u202e"} & {*text}
    file = changed(wheel, tmp_path, lambda c: c.update({SOURCE: b"a\tb\n\x1b[2J"}))
    assert main(["inspect", str(file), "--kernel", "k1"]) == 0
    assert capsys.readouterr().out == "a\tb\n\\x1b[2J"
    file = changed(wheel, tmp_path, lambda c: c.update({f"{NAME}/\u202e\x9b": b""}))
    assert r"tiny_model/\u202e\x9b does not fit its entry" in failed(capsys, "verify", file)


@pytest.mark.parametrize("verb", ["inspect", "verify"])
@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//x", "a\\x", "C:x", "a\nx"])
def test_entries_that_lead_elsewhere(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, verb: str
) -> None:
    file = changed(wheel, tmp_path, lambda contents: contents.update({name: b"x"}))
    assert "is no plain path, or there twice" in failed(capsys, verb, file)
    assert not (tmp_path.parent / "x").exists()


def test_entries_that_are_no_files_or_there_twice(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = zipfile.ZipInfo(f"{NAME}/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    file = changed(wheel, tmp_path, lambda contents: None)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    assert "'tiny_model/link' is no plain file" in failed(capsys, "verify", file)
    file = changed(wheel, tmp_path, lambda contents: None)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(f"{NAME}/wrapper.py", "")
    assert "'tiny_model/wrapper.py' is no plain path, or there twice" in failed(
        capsys, "inspect", file
    )


ODD_NAMES = {
    "ä" * 128: "has a name that is too long; accepted: 255 bytes between two slashes, 1000 in all",
    "/".join(["a" * 90] * 12): "has a name that is too long",
    f"{NAME}/manifest.json/x": "'tiny_model/manifest.json' is both a file and a folder",
    f"{NAME}/manifest.json/": "'tiny_model/manifest.json' is both a file and a folder",
}


@pytest.mark.parametrize(("name", "message"), ODD_NAMES.items())
@pytest.mark.parametrize("verb", ["inspect", "verify", "bench"])
def test_entries_that_cannot_be_unpacked(
    wheel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    message: str,
    verb: str,
) -> None:
    file = changed(wheel, tmp_path, lambda contents: contents.update({name: b""}))
    told = failed(capsys, verb, file)
    assert message in told and f"reading {file}: " in told and len(told) < 400 + len(str(file))


@pytest.mark.parametrize(
    "name", ["a" * 255, "/".join(["a" * 90] * 10), f"{NAME}/manifest.json-x", f"{NAME}/new/"]
)
def test_entries_that_can(wheel: Path, tmp_path: Path, name: str) -> None:
    file = changed(wheel, tmp_path, lambda contents: contents.update({name: b""}))
    assert main(["inspect", str(file)]) == 0


# record of the zip format, offset in it, form, value
ODD_ZIPS = [
    ("entry", 6, "<H", 99, "zip file version 9.9"),
    ("entry", 8, "<H", 1 << 0, "is encrypted or compressed in another way"),
    ("entry", 8, "<H", 1 << 5, "is encrypted or compressed in another way"),
    ("entry", 8, "<H", 1 << 6, "is encrypted or compressed in another way"),
    ("entry", 10, "<H", 97, "is encrypted or compressed in another way"),
    ("entry", 16, "<I", 1, "Bad CRC-32"),
    ("entry", 42, "<I", 0x7FFFFFFF, "lies outside of the file"),
    ("end", 16, "<I", 0xFFFFFFF0, "lies outside of the file"),
    ("end", 12, "<I", 0xFFFFFFF0, "Bad offset for central directory"),
    ("end", 16, "<I", 0xFFFFF, "lies outside of the file"),
    ("end", 12, "<I", 10, "Truncated central directory"),
    ("local", 0, "<I", 0, "Bad magic number"),
    ("local", 26, "<H", 0xFFFF, "File name in directory"),
    ("local", 28, "<H", 0xFFFF, ""),
]


@pytest.mark.parametrize(("record", "offset", "form", "value", "message"), ODD_ZIPS)
@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_zips_that_cannot_be_read(
    wheel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record: str,
    offset: int,
    form: str,
    value: int,
    message: str,
    verb: str,
) -> None:
    file = changed(wheel, tmp_path, lambda contents: None)
    with zipfile.ZipFile(file) as archive:
        start, local = archive.start_dir, archive.getinfo(MANIFEST).header_offset
    data = bytearray(file.read_bytes())
    entry = data.index(MANIFEST.encode(), start) - 46
    starts = {"entry": entry, "end": data.rindex(b"PK\5\6"), "local": local}
    struct.pack_into(form, data, starts[record] + offset, value)
    file.write_bytes(data)
    told = failed(capsys, verb, file)
    begin = f"aotpack {verb}: reading {file}: the file is damaged: "
    assert told.startswith(begin) and message in told and told[len(begin)] not in " ;"
    assert len(told) < len(begin) + 250 and told.endswith("; copy or build it again\n")


def drop(name: str) -> Callable[[Contents], object]:
    return lambda contents: contents.pop(name)


@pytest.mark.parametrize(
    ("verb", "change", "message"),
    [
        (
            "inspect",
            put("manifest.json", "kernels", "k1", "moved", "4*n"),
            "is 4*n, with n; accepted",
        ),
        ("inspect", put("manifest.json", "kernels", "k1", "moved", "4//0"), "it divides by zero"),
        ("inspect", drop(GOLDEN), "it has no tiny_model/golden.safetensors"),
        ("inspect", lambda c: c.update({GOLDEN: b""}), "its 0 bytes do not hold the header"),
        ("inspect", lambda c: c.update({GOLDEN: b"\2" + bytes(7) + b"{}"}), "has no input 'x'"),
        ("inspect", lambda c: c.update({GOLDEN: b"\2" + bytes(7) + b"[]"}), "is not an object"),
        ("inspect", put("manifest.json", "inputs", 0, "shape", ["b"]), "'x' of 1 dimensions"),
        ("inspect", drop(f"{NAME}/SHA256SUMS"), "it has no tiny_model/SHA256SUMS"),
        ("inspect", lambda c: c.update({MANIFEST: c[MANIFEST] + b" "}), "its sha256 is"),
        ("inspect", lambda c: c.update({MANIFEST: b"{"}), "manifest.json is not JSON"),
        ("inspect", lambda c: c.update({f"{NAME}/SHA256SUMS": b"x"}), "SHA256SUMS, line 1"),
        ("inspect", put("manifest.json", "schema", 1), "has schema 1; this runtime reads"),
        ("verify", put("manifest.json", "schema", 1), "does not fit its entry in RECORD"),
        ("verify", drop(RECORD), "it has no RECORD"),
        ("verify", drop(GOLDEN), "RECORD lists tiny_model/golden.safetensors wrongly"),
        ("verify", lambda c: c.update({RECORD: b"a,b"}), "a line of its RECORD has not three"),
        ("verify", lambda c: c.update({RECORD: b"\xff"}), "the file is damaged"),
        ("verify", lambda c: c.update({RECORD: c[RECORD] * 2}), "RECORD lists a file wrongly"),
    ],
)
def test_contents_that_do_not_fit(
    wheel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    change: Callable[[Contents], object],
    message: str,
) -> None:
    told = failed(capsys, verb, changed(wheel, tmp_path, change))
    assert message in told and told.count(str(tmp_path)) == told.count(str(tmp_path / wheel.name))
    assert re.search("copy or build it again|Copy or download it again", told)


@pytest.mark.parametrize(
    "name",
    ["evil.pth", "numpy/__init__.py", f"{NAME}-1.data/scripts/ls", "torch-1.dist-info/METADATA"],
)
def test_verify_refuses_files_beside_the_package(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Though RECORD has them: an installer would put them beside other packages."""

    def add(contents: Contents) -> None:
        contents[name] = b"import sys"
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).rstrip(b"=")
        contents[RECORD] += f"{name},sha256={digest.decode()},10\n".encode()

    error = failed(capsys, "verify", changed(wheel, tmp_path, add))
    assert f"{name} lies outside of the package {NAME}" in error


def for_processors(contents: Contents) -> None:
    """The code of a kernel is also that for processors."""
    kernel = json.loads(contents[MANIFEST])["kernels"]["k1"]
    put("manifest.json", "kernels", "k1", "binaries", "cpu", kernel["binaries"]["sm_80"])(contents)


@pytest.mark.parametrize(
    ("words", "change", "message"),
    [
        (["--kernel", "k1"], drop(SOURCE), f"it has no {SOURCE}"),
        (["--html", "r.html"], drop(SOURCE), f"it has no {SOURCE}"),
        (["--kernel", "k1"], lambda c: c.update({SOURCE: b"\x80"}), f"{SOURCE} is no text"),
        ([], lambda c: (for_processors(c), c.pop(CODE)), f"it has no {CODE}"),
        ([], for_processors, f"{CODE}: the shared object does not describe its functions"),
    ],
)
def test_files_of_kernels_that_are_missing_or_damaged(
    wheel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    change: Callable[[Contents], object],
    message: str,
) -> None:
    assert main(["inspect", str(changed(wheel, tmp_path, change)), *words]) == 1
    error = capsys.readouterr().err
    assert message in error and error.endswith("copy or build it again\n")


@pytest.mark.parametrize(
    ("file", "found"), [("gone/r.html", "No such file"), (".", "Is a directory")]
)
def test_a_report_that_cannot_be_written(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, found: str
) -> None:
    assert main(["inspect", str(wheel), "--html", str(tmp_path / file)]) == 2
    error = capsys.readouterr().err
    assert f"--html {tmp_path / file}: the report cannot be written: {found}" in error
    assert "accepted is a file" in error
