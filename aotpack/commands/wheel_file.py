"""A wheel on disk: checks its origin and integrity, and reads its manifest."""

import base64
import csv
import hashlib
import json
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from aotpack.errors import AotpackError, UsageError
from aotpack.runtime.checks.guards import sizes_of
from aotpack.runtime.manifest import Manifest, read_manifest
from aotpack.runtime.memory.weights import sidecar_name

_ACCEPTED = "a wheel is accepted, which aotpack MODEL -o DIR builds"


@contextmanager
def opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """The wheel as a zip file; damage found while reading is an AotpackError."""
    if not wheel.is_file():
        raise UsageError(f"reading {wheel}: there is no such file; {_ACCEPTED}")
    if wheel.suffix != ".whl" and not zipfile.is_zipfile(wheel):
        raise UsageError(f"reading {wheel}: it is no wheel; {_ACCEPTED}")
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, EOFError) as error:
        raise _damaged(wheel, str(error)) from error


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
        yield Path(place, name)


def weights_of(wheel: Path, package: Path, given: Path | None) -> Path | None:
    """The weights file of an unpacked wheel; None if the wheel contains the weights.

    The default is the sidecar beside the wheel.
    """
    manifest = json.loads((package / "manifest.json").read_bytes())
    mode = manifest["weights_mode"]
    if given is not None or mode == "embed" or not manifest["weights"]:
        return given
    if mode == "none":
        wanted = [one["name"] for one in manifest["weights"] if not one["constant"]]
        if not wanted:
            return None
        raise UsageError(
            f"reading {wheel}: it was built with --weights none; give its {len(wanted)} weights "
            f"({wanted[0]!r} is the first) with --weights FILE, a safetensors file"
        )
    beside = wheel.parent / sidecar_name(manifest["name"], manifest["version"])
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
        archive.extract(f"{name}/manifest.json", place)
        yield read_manifest(Path(place, name)), archive, name


def example_sizes(manifest: Manifest, archive: zipfile.ZipFile, name: str) -> dict[str, int]:
    """The model's sizes for its golden inputs, from the header of their file."""
    with archive.open(f"{name}/golden.safetensors") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    inputs = manifest.signature.inputs
    shapes = [tuple(header[f"inputs/{tensor.name}"]["shape"]) for tensor in inputs]
    return sizes_of(manifest.signature, shapes)


def _check_record(wheel: Path, archive: zipfile.ZipFile, place: Path) -> None:
    record = next((n for n in archive.namelist() if n.endswith(".dist-info/RECORD")), None)
    if record is None:
        raise _damaged(wheel, "it has no RECORD")
    rows = csv.reader((place / record).read_text().splitlines())
    digests = {path: digest for path, digest, _ in rows}
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
