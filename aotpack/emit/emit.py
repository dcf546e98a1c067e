"""``emit``: one wheel in the output folder, whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aotpack.emit.content import Content
from aotpack.emit.names import Identity
from aotpack.emit.package import check_weights_mode, package_contents, weights_content
from aotpack.emit.sbom import sbom_text
from aotpack.emit.tags import platform_tag, requirements
from aotpack.emit.wheel import Facts, build_wheel, seal
from aotpack.errors import AotpackError, UsageError
from aotpack.runtime.memory.weights import sidecar_name
from aotpack.stages import Emitted, Precompiled
from aotpack.temporary import is_full, locked_folder

_EMBEDDED = "weights.safetensors"


def emit(
    precompiled: Precompiled,
    identity: Identity,
    out: Path,
    *,
    weights: str = "embed",
    entry_point: bool = True,
) -> Emitted:
    """Write NAME-VERSION-py3-none-PLATFORM.whl into ``out``, weights beside it for "sidecar"."""
    check_weights_mode(weights)
    rendered = precompiled.rendered
    name, version = identity.name, identity.version
    tensors = weights_content(rendered, _EMBEDDED)
    contents = package_contents(precompiled, identity, weights, tensors)
    early = [content for content in contents if content is not tensors]
    late = [tensors.moved(f"{name}/{_EMBEDDED}")] if len(early) < len(contents) else []
    is_apart = weights == "sidecar" and bool(rendered.weights)
    sidecar = tensors.moved(sidecar_name(name, version)) if is_apart else None
    needed = requirements(tuple(map(str, precompiled.targets)), calls_torch=bool(rendered.calls))
    bill = sbom_text(precompiled, identity, contents, needed, sidecar)
    late.append(Content.of("DIST-INFO/sboms/aotpack.cdx.json", bill))
    facts = Facts(platform_tag(precompiled.host), needed, entry_point)
    with _staging(out, name) as staging:
        project = staging / "project"
        project.mkdir()
        built = build_wheel(project, name, version, early, facts)
        sealed = staging / built.name
        files = seal(built, late, sealed)
        beside = []
        if sidecar is not None:
            sidecar.write(staging)
            beside.append(sidecar.path)
        _move([*beside, sealed.name], staging, out)
    return Emitted(out / sealed.name, files, out / beside[0] if beside else None)


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


@contextmanager
def _staging(out: Path, name: str) -> Iterator[Path]:
    """A temporary folder inside ``out``; those of killed builds are removed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with locked_folder(out, ".aotpack-") as staging:
            yield staging
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"emitting {name}: {out} is not a folder; pass a folder to -o") from None
    except OSError as error:
        advice = "make room there" if is_full(error) else "check the folder"
        raise AotpackError(
            f"emitting {name}: writing into {out} failed: {error.strerror or error}. Nothing was "
            f"left there; {advice} and build again."
        ) from error
