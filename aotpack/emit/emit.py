"""``emit``: one wheel in the output folder, whole or not at all."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aotpack.emit.content import Content
from aotpack.emit.description import classifiers, description_text
from aotpack.emit.names import Identity
from aotpack.emit.package import (
    check_weights_mode,
    has_weights,
    package_contents,
    runtime_contents,
    weights_content,
)
from aotpack.emit.provenance import Inputs, provenance_file, provenance_text
from aotpack.emit.sbom import sbom_text
from aotpack.emit.tags import platform_tag, requirements
from aotpack.emit.wheel import Facts, build_wheel, seal
from aotpack.errors import AotpackError, UsageError
from aotpack.runtime.memory.weight_files import sidecar_name
from aotpack.stages import Emitted, Precompiled
from aotpack.temporary import is_full, locked_folder

_EMBEDDED = "weights.safetensors"
_STAGING = ".aotpack-"  # begins the names of temporary folders


def emit(
    precompiled: Precompiled,
    identity: Identity,
    out: Path,
    *,
    weights: str = "embed",
    entry_point: bool = True,
    inputs: Inputs | None = None,
) -> Emitted:
    """Write NAME-VERSION-py3-none-PLATFORM.whl into ``out``, and its provenance beside it.

    The weights too lie beside it for "sidecar".
    """
    check_weights_mode(weights)
    name, version = identity.name, identity.version
    tensors = weights_content(precompiled.rendered, _EMBEDDED)
    is_apart = weights == "sidecar" and has_weights(precompiled.rendered)
    sidecar = tensors.moved(sidecar_name(name, version)) if is_apart else None
    shipped = None if weights == "none" else tensors
    contents = package_contents(precompiled, identity, weights, tensors, runtime_contents())
    calls_torch = bool(precompiled.rendered.calls)
    needed = requirements(tuple(map(str, precompiled.targets)), calls_torch=calls_torch)
    with _staging(out, name) as staging:
        told = description_text(precompiled, identity, needed, weights)
        facts = Facts(
            platform_tag(precompiled.host), needed, entry_point, told, classifiers(precompiled)
        )
        bill = sbom_text(precompiled, identity, contents, needed, sidecar)
        sealed, files = _wheel(identity, contents, facts, bill, staging)
        subjects = {sealed.name: _sha256(sealed)}
        if sidecar is not None:
            sidecar.write(staging)
            subjects[sidecar.path] = sidecar.sha256.hex()
        provenance_file(sealed).write_bytes(
            provenance_text(precompiled, identity, inputs or Inputs(), shipped, subjects)
        )
        replaced = tuple(out / name for name in subjects if (out / name).exists())
        _move([*reversed(subjects), provenance_file(sealed).name], staging, out)
    beside = None if sidecar is None else out / sidecar.path
    return Emitted(out / sealed.name, files, beside, replaced)


def _wheel(
    identity: Identity, contents: Sequence[Content], facts: Facts, bill: bytes, staging: Path
) -> tuple[Path, tuple[tuple[str, int], ...]]:
    """The wheel in ``staging`` with the sizes of its files; weights and bill are added last."""
    early = [content for content in contents if content.path != _EMBEDDED]
    late = [one.moved(f"{identity.name}/{_EMBEDDED}") for one in contents if one.path == _EMBEDDED]
    late.append(Content.of("DIST-INFO/sboms/aotpack.cdx.json", bill))
    project = staging / "project"
    project.mkdir()
    built = build_wheel(project, identity.name, identity.version, early, facts)
    return staging / built.name, seal(built, late, staging / built.name)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _move(names: list[str], staging: Path, out: Path) -> None:
    """Move whole files into place; if one cannot be, none of the new ones stays."""
    placed: list[Path] = []
    try:
        for name in names:
            os.replace(staging / name, out / name)
            placed.append(out / name)
    except BaseException:
        for path in placed:
            path.unlink(missing_ok=True)
        raise


def check_folder(out: Path, name: str) -> None:
    """Refuse a folder that cannot be written to, before the work of a build; makes none."""
    with _explained(out, name):
        there = next(path for path in (out, *out.parents) if path.exists())
        with locked_folder(there, _STAGING):
            pass


@contextmanager
def _staging(out: Path, name: str) -> Iterator[Path]:
    """A temporary folder inside ``out``; those of killed builds are removed."""
    with _explained(out, name):
        out.mkdir(parents=True, exist_ok=True)
        with locked_folder(out, _STAGING) as staging:
            yield staging


@contextmanager
def _explained(out: Path, name: str) -> Iterator[None]:
    """Inside the block, an OSError is a failure to write into ``out``."""
    try:
        yield
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"emitting {name}: {out} is not a folder; pass a folder to -o") from None
    except OSError as error:
        advice = "make room there" if is_full(error) else "check the folder"
        raise AotpackError(
            f"emitting {name}: writing into {out} failed: {error.strerror or error}. Nothing was "
            f"left there; {advice} and build again."
        ) from error
