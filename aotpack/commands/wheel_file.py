"""A wheel on disk: checks its origin and integrity, and reads its manifest."""

import base64
import csv
import hashlib
import itertools
import re
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from aotpack.errors import AotpackError, UsageError, printable
from aotpack.runtime.checks.guards import sizes_of
from aotpack.runtime.errors import PackageError
from aotpack.runtime.files.schema import shown
from aotpack.runtime.files.sums import SUMS
from aotpack.runtime.manifest import Manifest, read_manifest
from aotpack.runtime.memory.weight_files import sidecar_name_of
from aotpack.runtime.safetensors import read_header

_PLAIN = re.compile(r"[^\x00-\x1f\x7f\\:]+")
_LONGEST_PATH, _LONGEST_NAME = 1000, 255  # bytes; file systems take no more in a name
_TOLD = 150  # characters of a message of zipfile, which may quote 64 KB of the file
_UNREADABLE = 1 << 0 | 1 << 5 | 1 << 6  # flags: encrypted, a patch, encrypted strongly
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ADVICE = re.compile(r"[.;,] *(The package is damaged: r|R)einstall .*", re.DOTALL)
_ACCEPTED = "a wheel is accepted, which aotpack MODEL -o DIR builds"


@contextmanager
def opened(wheel: Path, content: Path | None = None) -> Iterator[zipfile.ZipFile]:
    """The wheel as a zip file, with entries that can be unpacked; ``content`` is a copy to read."""
    file = content or wheel
    if not file.is_file():
        found = "it is a folder" if file.is_dir() else "there is no such file"
        raise UsageError(f"reading {wheel}: {found}; {_ACCEPTED}")
    if wheel.suffix != ".whl" and not zipfile.is_zipfile(file):
        raise UsageError(f"reading {wheel}: it is no wheel; {_ACCEPTED}")
    with _reading(wheel):
        archive = zipfile.ZipFile(file)
    with archive:
        _check_entries(wheel, archive, file.stat().st_size)
        yield archive


@contextmanager
def _reading(wheel: Path) -> Iterator[None]:
    """Around calls of zipfile alone: whatever it raises about the file is an AotpackError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        told = str(error) or "an entry ends early"
        told = told if len(told) <= _TOLD else f"{told[:_TOLD]}..."
        raise _damaged(wheel, told) from error
    except OSError as error:
        raise AotpackError(
            f"reading {wheel}: {error.strerror or error}; check the file, and the space in the "
            "folder for temporary files"
        ) from error


def _check_entries(wheel: Path, archive: zipfile.ZipFile, size: int) -> None:
    """Every entry is a plain file below the folder that it is unpacked into, and there once."""
    seen: set[str] = set()
    for entry in archive.infolist():
        fault = "is no plain path, or there twice" if entry.filename in seen else _fault(entry)
        if not 0 <= entry.header_offset < size:
            fault = "lies outside of the file"
        if fault:
            raise _damaged(wheel, f"its entry {shown(entry.filename)} {fault}")
        seen.add(entry.filename)
    names = sorted((f"{name.removesuffix('/')}/", name.endswith("/")) for name in seen)
    for (name, is_folder), (after, _) in itertools.pairwise(names):
        if not is_folder and after.startswith(name):
            raise _damaged(wheel, f"its entry {shown(name[:-1])} is both a file and a folder")


def _fault(entry: zipfile.ZipInfo) -> str:
    """What keeps an entry from being unpacked; "" if nothing does."""
    name, kind = entry.filename, entry.external_attr >> 16
    parts = name.removesuffix("/").split("/")
    if not _PLAIN.fullmatch(name) or {"", ".", ".."} & {*parts}:
        return "is no plain path, or there twice"
    if (
        len(name.encode()) > _LONGEST_PATH
        or max(len(one.encode()) for one in parts) > _LONGEST_NAME
    ):
        return (
            f"has a name that is too long; accepted: {_LONGEST_NAME} bytes between two slashes, "
            f"{_LONGEST_PATH} in all"
        )
    if stat.S_IFMT(kind) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is no plain file"
    if entry.flag_bits & _UNREADABLE or entry.compress_type not in _COMPRESSIONS:
        return "is encrypted or compressed in another way"
    return ""


def package_name(wheel: Path, archive: zipfile.ZipFile) -> str:
    """The import name of the package inside."""
    for name in archive.namelist():
        path = PurePosixPath(name)
        if len(path.parts) == 2 and path.name == "manifest.json":
            return path.parts[0]
    raise UsageError(
        f"reading {wheel}: it holds no aotpack package (no manifest.json was found); {_ACCEPTED}"
    )


@contextmanager
def unpacked(wheel: Path, content: Path | None = None) -> Iterator[Path]:
    """The package's folder in a temporary place, each file checked against the wheel's RECORD.

    ``content`` is a copy of the wheel to read.
    """
    with tempfile.TemporaryDirectory(prefix="aotpack-") as place:
        with opened(wheel, content) as archive:
            name = package_name(wheel, archive)
            _check_folders(wheel, archive, name)
            with _reading(wheel):
                archive.extractall(place)
            _check_record(wheel, archive, Path(place))
        with _naming(wheel, Path(place)):
            read_manifest(Path(place, name))
        yield Path(place, name)


def weights_of(wheel: Path, package: Path, given: Path | None) -> Path | None:
    """The weights file of an unpacked wheel; None if the wheel contains the weights.

    The default is the sidecar beside the wheel.
    """
    manifest = read_manifest(package)
    mode = manifest.weights_mode
    wanted = [weight.name for weight in manifest.weights if not weight.constant]
    if given is not None or mode == "embed" or not wanted:
        return given
    if mode == "none":
        raise UsageError(
            f"reading {wheel}: it was built with --weights none; give its {len(wanted)} weights "
            f"({wanted[0]!r} is the first) with --weights FILE, a safetensors file"
        )
    beside = wheel.parent / sidecar_name_of(manifest)
    if not beside.is_file():
        raise UsageError(
            f"reading {wheel}: its weights travel beside it, and there is no {beside}; "
            "put it there or say where it is with --weights FILE"
        )
    return beside


@contextmanager
def manifest_of(wheel: Path) -> Iterator[tuple[Manifest, zipfile.ZipFile, str]]:
    """The manifest alone, without unpacking weights; with the archive and the package's name."""
    with opened(wheel) as archive, tempfile.TemporaryDirectory(prefix="aotpack-") as place:
        name = package_name(wheel, archive)
        for file in (f"{name}/manifest.json", f"{name}/{SUMS}"):
            check_has(archive, file)
            with _reading(wheel):
                archive.extract(file, place)
        with _naming(wheel, Path(place)):
            yield read_manifest(Path(place, name)), archive, name


@contextmanager
def _naming(wheel: Path, place: Path) -> Iterator[None]:
    """Inside the block, a damaged package is a damaged wheel: ``place`` is no installation."""
    try:
        yield
    except PackageError as error:
        told = str(error).replace(f"{place}/", "").removeprefix("loading the package in ")
        raise _damaged(wheel, _ADVICE.sub("", told)) from error


def read_entry(archive: zipfile.ZipFile, path: str) -> bytes:
    """The content of a file that the manifest names."""
    check_has(archive, path)
    with _reading(Path(archive.filename or "")):
        return archive.read(path)


def check_has(archive: zipfile.ZipFile, path: str) -> None:
    """Refuse a wheel without a file that every build writes."""
    if path not in archive.namelist():
        raise damaged(archive, f"it has no {path}")


def damaged(archive: zipfile.ZipFile, reason: str) -> AotpackError:
    """The error of a file that an opened wheel lacks, or that is not as built."""
    return _damaged(Path(archive.filename or ""), reason)


def example_sizes(
    manifest: Manifest, archive: zipfile.ZipFile, name: str
) -> dict[str, dict[str, int]]:
    """The sizes of each method for golden inputs."""
    return {method: _example_sizes(one, archive, name) for method, one in manifest.entries.items()}


def _example_sizes(manifest: Manifest, archive: zipfile.ZipFile, name: str) -> dict[str, int]:
    """The sizes of one method, from the header of its file of golden data."""
    path = f"{name}/{manifest.golden_file}"
    check_has(archive, path)
    with _reading(Path(archive.filename or "")), archive.open(path) as file:
        place = Path(archive.filename or "", path)
        header = read_header(file, archive.getinfo(path).file_size, place)
    shapes = {one: found.shape for one, found in header.items()}
    shapes |= {f"inputs/{one}": drawn.shape for one, drawn in manifest.golden.drawn.items()}
    inputs = manifest.signature.inputs
    for one in inputs:
        shape, rank = shapes.get(f"inputs/{one.name}"), len(one.shape)
        if shape is None or len(shape) != rank:
            raise damaged(archive, f"{path} has no input {one.name!a} of {rank} dimensions")
    return sizes_of(manifest.signature, [shapes[f"inputs/{one.name}"] for one in inputs])


def _check_folders(wheel: Path, archive: zipfile.ZipFile, name: str) -> None:
    """An installer puts nothing beside the package and the one folder of its metadata."""
    for entry in archive.namelist():
        folder, _, inner = entry.partition("/")
        distribution, _, kind = folder.rpartition(".")
        is_own = canonicalize_name(distribution.partition("-")[0]) == canonicalize_name(name)
        if not inner or not (folder == name or (kind == "dist-info" and is_own)):
            raise _damaged(wheel, f"{printable(entry)} lies outside of the package {name}")


def _check_record(wheel: Path, archive: zipfile.ZipFile, place: Path) -> None:
    record = next((n for n in archive.namelist() if n.endswith(".dist-info/RECORD")), None)
    if record is None:
        raise _damaged(wheel, "it has no RECORD")
    try:
        rows = [*csv.reader((place / record).read_text("utf-8").splitlines())]
    except (csv.Error, UnicodeDecodeError) as error:
        raise _damaged(wheel, f"its RECORD cannot be read: {error}") from error
    if any(len(row) != 3 for row in rows):
        raise _damaged(wheel, "a line of its RECORD has not three parts")
    digests = {path: digest for path, digest, _ in rows}
    names = {name for name in archive.namelist() if not name.endswith("/")}
    missing = [path for path in digests if path not in names]
    if missing or len(digests) < len(rows):
        raise _damaged(wheel, f"its RECORD lists {printable((missing or ['a file'])[0])} wrongly")
    for name in archive.namelist():
        if name == record or name.endswith("/"):
            continue
        kind, _, expected = digests.get(name, "").partition("=")
        if kind != "sha256" or _digest(place / name) != expected:
            raise _damaged(wheel, f"{printable(name)} does not fit its entry in RECORD")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _damaged(wheel: Path, reason: str) -> AotpackError:
    return AotpackError(f"reading {wheel}: the file is damaged: {reason}; copy or build it again")
