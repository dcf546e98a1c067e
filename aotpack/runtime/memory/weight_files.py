"""Where the weights of a package lie: in it, beside its wheel, or in a file that is named."""

from pathlib import Path

from ..errors import ArgumentError, WeightError
from ..manifest import Manifest


def sidecar_name(name: str, version: str) -> str:
    """The name of the sidecar file of a wheel."""
    return f"{name}-{version}.weights.safetensors"


def sidecar_name_of(manifest: Manifest) -> str:
    """The name of the sidecar file of a package."""
    return sidecar_name(manifest.signature.name, manifest.signature.version)


def weights_file(manifest: Manifest, given: Path | None) -> Path | None:
    """The file of the weights: the given one, else that of the package's mode, else None."""
    if all(weight.constant for weight in manifest.weights):
        if given is not None:
            has = "constants alone, which it contains" if manifest.weights else "no tensors"
            raise ArgumentError(
                f"loading {manifest.signature.name}: weights={str(given)!r}, and the package has "
                f"no weights to load: its model has {has}. Leave weights out, on a command line "
                "--weights."
            )
        return None
    if given is not None:
        return given
    if manifest.weights_mode == "embed":
        path = manifest.folder / "weights.safetensors"
        if not path.is_file():
            raise WeightError(
                f"loading {manifest.signature.name}: its file weights.safetensors is missing from "
                f"{manifest.folder}; install the wheel again"
            )
        return path
    if manifest.weights_mode == "none":
        return None
    signature, name = manifest.signature, sidecar_name_of(manifest)
    folders = manifest.folder, manifest.folder.parent
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise WeightError(
        f"loading {signature.name}: its weights travel beside the wheel and {name} is in neither "
        f"{' nor '.join(map(str, folders))}. Put it there, or load with weights=PATH; a command "
        "line takes --weights FILE."
    )
