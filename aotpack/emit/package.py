"""The importable folder of a package: modules, the runtime, kernels, weights, golden data."""

import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import aotpack.runtime
from aotpack.emit.content import Content, safetensors
from aotpack.emit.manifest import manifest_text, source_path, stored_binaries
from aotpack.emit.modules import init_text, main_text
from aotpack.emit.names import Identity
from aotpack.errors import UsageError
from aotpack.runtime.files.sums import SUMS, read_sums, sums_text
from aotpack.runtime.manifest import parse_manifest
from aotpack.stages import Golden, Precompiled, Rendered

WEIGHTS_MODES = ("embed", "sidecar", "none")


def write_package(
    precompiled: Precompiled, folder: Path, weights: str = "embed", *, runtime: bool = True
) -> None:
    """Write the files of the package into ``folder``, which becomes importable by its name.

    Without ``runtime`` it lacks the copy of the runtime: it is loaded by this process's own alone.
    """
    check_weights_mode(weights)
    signature = precompiled.rendered.signature
    identity = Identity.of(signature.name, signature.version)
    tensors = weights_content(precompiled.rendered, "weights.safetensors")
    copied = runtime_contents() if runtime else ()
    contents = package_contents(precompiled, identity, weights, tensors, copied)
    for content in contents:
        content.write(folder)


def package_contents(
    precompiled: Precompiled,
    identity: Identity,
    weights: str,
    tensors: Content,
    runtime: tuple[Content, ...],
) -> list[Content]:
    """All files of the package by their path in it, sorted; ``tensors`` is that of the weights."""
    rendered = precompiled.rendered
    constants = constants_content(rendered)
    has_file = weights != "none" and has_weights(rendered)
    file = tensors if has_file else None
    manifest = manifest_text(precompiled, identity, weights, file, constants.sha256.hex())
    parse_manifest(json.loads(manifest), Path(identity.name))  # no runtime would read another
    contents = [
        Content.of("__init__.py", init_text(identity, rendered).encode()),
        Content.of("__init__.pyi", rendered.interface.encode()),
        Content.of("py.typed", b""),
        Content.of("__main__.py", main_text(identity).encode()),
        Content.of("manifest.json", manifest),
        constants,
        *(content for name, one in rendered.entries.items() for content in _own(name, one)),
        *runtime,
        *kernel_contents(precompiled),
    ]
    if weights == "embed" and has_file:
        contents.append(tensors)
    sums = sums_text({content.path: content.sha256.hex() for content in contents})
    return sorted([*contents, Content.of(SUMS, sums)], key=lambda content: content.path)


def _own(method: str, rendered: Rendered) -> Iterator[Content]:
    """The files of a method."""
    behind = f"_{method}" if method else ""
    yield Content.of(f"wrapper{behind}.py", rendered.wrapper.encode())
    yield golden_content(rendered.golden, f"golden{behind}.safetensors")


def reseal(folder: Path) -> None:
    """Write the hashes of a package again, after its files were changed on purpose."""
    digests = {path: hashlib.sha256((folder / path).read_bytes()) for path in read_sums(folder)}
    (folder / SUMS).write_bytes(sums_text({p: digest.hexdigest() for p, digest in digests.items()}))


def has_weights(rendered: Rendered) -> bool:
    """True if a checkpoint has tensors for the model."""
    return not all(weight.is_constant for weight in rendered.weights)


def weights_content(rendered: Rendered, path: str) -> Content:
    """The weights of a checkpoint, under their first names."""
    weights = (w for w in rendered.weights if not w.is_constant)
    return safetensors(path, ((w.name, w.dtype, w.shape, w.data) for w in weights))


def constants_content(rendered: Rendered) -> Content:
    """The tensors that are in no checkpoint; every package has them."""
    constants = (w for w in rendered.weights if w.is_constant)
    return safetensors(
        "constants.safetensors", ((w.name, w.dtype, w.shape, w.data) for w in constants)
    )


def golden_content(golden: Golden, path: str) -> Content:
    """The golden data: tensors called inputs/NAME, outputs/NAME, updates/NAME and their limits."""
    sides = (("inputs", golden.inputs), ("outputs", golden.outputs), ("updates", golden.updates))
    return safetensors(
        path,
        [
            (f"{side}/{name}", dtype, shape, memoryview(data))
            for side, tensors in sides
            for name, dtype, shape, data in tensors
        ]
        + [(name, dtype, shape, memoryview(data)) for name, dtype, shape, data in golden.limits],
    )


@functools.cache
def runtime_contents() -> tuple[Content, ...]:
    """The runtime, byte for byte; read once, as this process imported it."""
    folder = Path(aotpack.runtime.__file__).parent
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return tuple(
        Content.of(f"_runtime/{name}", path.read_bytes())
        for name, path in sorted(files.items())
        if path.suffix == ".py" or name == "LICENSE"
    )


def kernel_contents(precompiled: Precompiled) -> Iterator[Content]:
    """The code of all kernels for all targets, and their texts for reading."""
    stored = {path: binary.code for binary, path in reversed(stored_binaries(precompiled).items())}
    for path, code in stored.items():
        yield Content.of(path, code)
    sources = {source_path(kernel): kernel for kernel in precompiled.rendered.kernels}
    for path, kernel in sources.items():
        is_c = kernel.language == "c"
        yield Content.of(path, (precompiled.rendered.host_file if is_c else kernel.text).encode())


def check_weights_mode(weights: str) -> None:
    """Refuse an unknown way to ship weights."""
    if weights not in WEIGHTS_MODES:
        raise UsageError(
            f"emitting a package: weights={weights!r}; accepted: {', '.join(WEIGHTS_MODES)}"
        )
