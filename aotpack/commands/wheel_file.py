"""A wheel on disk: checks its origin and integrity, and reads its manifest."""

import base64
import csv
import hashlib
import re
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from aotpack.errors import AotpackError, UsageError
from aotpack.runtime.checks.guards import sizes_of
from aotpack.runtime.errors import PackageError
from aotpack.runtime.files.sums import SUMS
from aotpack.runtime.manifest import Manifest, read_manifest
from aotpack.runtime.memory.weights import sidecar_name_of
from aotpack.runtime.safetensors import read_header

_PLAIN = re.compile(r"[^\x00-\x1f\x7f\\:]{1,1000}")
_ENCRYPTED = 1
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ADVICE = re.compile(r"[.;,] *(The package is damaged: r|R)einstall .*", re.DOTALL)
_ACCEPTED = "a wheel is accepted, which aotpack MODEL -o DIR builds"


@contextmanager
def opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """The wheel as a zip file; damage found while reading is an AotpackError."""
    if not wheel.is_file():
        found = "it is a folder" if wheel.is_dir() else "there is no such file"
        raise UsageError(f"reading {wheel}: {found}; {_ACCEPTED}")
    if wheel.suffix != ".whl" and not zipfile.is_zipfile(wheel):
        raise UsageError(f"reading {wheel}: it is no wheel; {_ACCEPTED}")
    try:
        with zipfile.ZipFile(wheel) as archive:
            _check_entries(wheel, archive)
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise _damaged(wheel, str(error)) from error


def _check_entries(wheel: Path, archive: zipfile.ZipFile) -> None:
    """Every entry is a plain file below the folder that it is unpacked into, and there once."""
    seen: set[str] = set()
    for entry in archive.infolist():
        name, kind = entry.filename, entry.external_attr >> 16
        parts = name.removesuffix("/").split("/")
        if name in seen or not _PLAIN.fullmatch(name) or {"", ".", ".."} & {*parts}:
            raise _damaged(wheel, f"its entry {name!a} is no plain path, or there twice")
        if stat.S_IFMT(kind) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _damaged(wheel, f"its entry {name!a} is no plain file")
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _COMPRESSIONS:
            raise _damaged(wheel, f"its entry {name!a} is encrypted or compressed in another way")
        seen.add(name)


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
def unpacked(wheel: Path) -> Iterator[Path]:
    """The package's folder in a temporary place, each file checked against the wheel's RECORD."""
    with opened(wheel) as archive, tempfile.TemporaryDirectory(prefix="aotpack-") as place:
        name = package_name(wheel, archive)
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
    if given is not None or mode == "embed" or not manifest.weights:
        return given
    if mode == "none":
        wanted = [weight.name for weight in manifest.weights if not weight.constant]
        if not wanted:
            return None
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
    return archive.read(path)


def check_has(archive: zipfile.ZipFile, path: str) -> None:
    """Refuse a wheel without a file that every build writes."""
    if path not in archive.namelist():
        raise damaged(archive, f"it has no {path}")


def damaged(archive: zipfile.ZipFile, reason: str) -> AotpackError:
    """The error of a file that an opened wheel lacks, or that is not as built."""
    return _damaged(Path(archive.filename or ""), reason)


def example_sizes(manifest: Manifest, archive: zipfile.ZipFile, name: str) -> dict[str, int]:
    """The sizes for golden inputs; where methods have one of a name, that of the first."""
    found: dict[str, int] = {}
    for one in manifest.entries.values():
        found = _example_sizes(one, archive, name) | found
    return found


def _example_sizes(manifest: Manifest, archive: zipfile.ZipFile, name: str) -> dict[str, int]:
    """The sizes of one method, from the header of its file of golden data."""
    path = f"{name}/{manifest.golden_file}"
    check_has(archive, path)
    with archive.open(path) as file:
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


def _check_record(wheel: Path, archive: zipfile.ZipFile, place: Path) -> None:
    record = next((n for n in archive.namelist() if n.endswith(".dist-info/RECORD")), None)
    if record is None:
        raise _damaged(wheel, "it has no RECORD")
    try:
        rows = [*csv.reader((place / record).read_text().splitlines())]
    except csv.Error as error:
        raise _damaged(wheel, f"its RECORD cannot be read: {error}") from error
    if any(len(row) != 3 for row in rows):
        raise _damaged(wheel, "a line of its RECORD has not three parts")
    digests = {path: digest for path, digest, _ in rows}
    missing = [path for path in digests if not (place / path).is_file()]
    if missing or len(digests) < len(rows):
        raise _damaged(wheel, f"its RECORD lists {(missing or ['a file'])[0]} wrongly")
    for name in archive.namelist():
        if name == record or name.endswith("/"):
            continue
        kind, _, expected = digests.get(name, "").partition("=")
        if kind != "sha256" or _digest(place / name) != expected:
            raise _damaged(wheel, f"{name} does not fit its entry in RECORD")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _damaged(wheel: Path, reason: str) -> AotpackError:
    return AotpackError(f"reading {wheel}: the file is damaged: {reason}; copy or build it again")
