"""An exporter of transformers whose programs are wheels: the export format "aotpack".

Importing this module registers it, so that ``save_pretrained``, ``from_pretrained`` and
``push_to_hub`` of an ``ExportedModel`` carry wheels. It needs ``aotpack[transformers]``.
"""

import io
import zipfile
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.exporters import DynamoConfig, DynamoExporter, ModelRunner, register_backend
from transformers.exporters.metadata import ExportMetadata

from aotpack.pipeline import build
from aotpack.runtime import load
from aotpack.runtime.structures.trees import flatten
from aotpack.temporary import temporary_folder

FORMAT, PACKAGE = "aotpack", "model"
HOST = 1  # DLPack's number of host memory


@dataclass
class AotpackConfig(DynamoConfig):  # type: ignore[misc]
    """Options of the export, and ``targets`` as for ``aotpack.build``."""

    export_format: str = FORMAT
    targets: str = "native"


class AotpackExporter(DynamoExporter):  # type: ignore[misc]
    """torch.export as transformers calls it, then a build; a program is the content of a wheel."""

    export_format = FORMAT
    config_class = AotpackConfig
    program_suffix = ".whl"

    def export_program(
        self, model: Any, sample_inputs: MutableMapping[str, Any], config: AotpackConfig
    ) -> tuple[bytes, ExportMetadata]:
        """One wheel for one graph."""
        program, metadata = super().export_program(model, sample_inputs, config)
        args, kwargs = program.example_inputs
        with temporary_folder("exporting the model") as folder:
            wheel = build(program, args, kwargs, name=PACKAGE, targets=config.targets, out=folder)
            return wheel.read_bytes(), metadata

    @classmethod
    def save_program(cls, program: bytes, path: str | Path) -> None:
        """Write the wheel."""
        Path(path).write_bytes(program)

    @classmethod
    def load_program(cls, path: str | Path) -> bytes:
        """Read the wheel."""
        return Path(path).read_bytes()


class AotpackRunner(ModelRunner):  # type: ignore[misc]
    """Calls a package in this process, with the arguments and results of the model."""

    def __init__(self, program: bytes, metadata: ExportMetadata, device: Any) -> None:
        super().__init__(metadata)
        place = None if device is None else str(device)
        with temporary_folder("loading the exported model") as folder:
            with zipfile.ZipFile(io.BytesIO(program)) as archive:
                archive.extractall(folder)
            self.model = load(folder / PACKAGE, place)

    @classmethod
    def from_program(
        cls, program: bytes, metadata: ExportMetadata, device: Any = None
    ) -> "AotpackRunner":
        """On ``device``, or where the package runs by default: a GPU that it has code for."""
        return cls(program, metadata, device)

    @property
    def device(self) -> torch.device:
        """Where the package runs."""
        kind, number = self.model.device.place
        return torch.device("cpu") if kind == HOST else torch.device("cuda", number)

    def __call__(
        self, share_inputs: bool = True, share_outputs: bool = False, **kwargs: Any
    ) -> Any:
        """Arguments are read in place; results are new, whatever is asked for."""
        given = {**self.metadata.in_constants, **kwargs}
        signature = self.model.signature
        found = self.model(**{name: given[name] for name in signature.kwargs.keys if name in given})
        leaves: list[Any] = []
        flatten(signature.result, found, "the result", leaves)
        return self.unflatten([torch.as_tensor(one) for one in leaves])


register_backend(AotpackExporter, AotpackRunner)
