"""``emit``: one wheel in the output folder, whole or not at all."""

import errno
import os
import shutil
import tempfile
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
    contents = package_contents(precompiled, identity, weights)
    early = [content for content in contents if content.path != _EMBEDDED]
    late = [
        content.moved(f"{name}/{_EMBEDDED}") for content in contents if content.path == _EMBEDDED
    ]
    late.append(Content.of("DIST-INFO/sboms/aotpack.cdx.json", sbom_text(precompiled, identity)))
    facts = Facts(
        platform_tag(precompiled.host),
        requirements(tuple(map(str, precompiled.targets)), calls_torch=bool(rendered.calls)),
        entry_point,
    )
    with _staging(out, name) as staging:
        project = staging / "project"
        project.mkdir()
        built = build_wheel(project, name, version, early, facts)
        sealed = staging / built.name
        files = seal(built, late, sealed)
        sidecar = None
        if weights == "sidecar" and rendered.weights:
            content = weights_content(rendered, sidecar_name(name, version))
            content.write(staging)
            sidecar = out / content.path
            os.replace(staging / content.path, sidecar)
        os.replace(sealed, out / sealed.name)
    return Emitted(out / sealed.name, files, sidecar)


@contextmanager
def _staging(out: Path, name: str) -> Iterator[Path]:
    """A temporary folder inside ``out``."""
    staging: Path | None = None
    try:
        out.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".aotpack-", dir=out))
        yield staging
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"emitting {name}: {out} is not a folder; pass a folder to -o") from None
    except OSError as error:
        advice = "make room there" if error.errno == errno.ENOSPC else "check the folder"
        raise AotpackError(
            f"emitting {name}: writing into {out} failed: {error.strerror or error}. Nothing was "
            f"left there; {advice} and build again."
        ) from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
