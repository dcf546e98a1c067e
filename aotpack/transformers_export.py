"""An exporter of transformers whose programs are wheels: the export format "aotpack".

Importing this module registers it, so that ``save_pretrained``, ``from_pretrained`` and
``push_to_hub`` of an ``ExportedModel`` carry a wheel. It needs ``aotpack[transformers]``.
"""

import io
import json
import threading
import weakref
import zipfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from transformers.exporters import (
    DynamoConfig,
    DynamoExporter,
    ExportedModel,
    ModelRunner,
    register_backend,
)
from transformers.exporters.metadata import ExportMetadata

from aotpack.errors import UsageError
from aotpack.pipeline import Method, build
from aotpack.runtime import load
from aotpack.runtime.structures.trees import flatten
from aotpack.temporary import temporary_folder

FORMAT, PACKAGE = "aotpack", "model"
WHEEL = f"{PACKAGE}.whl"
HOST = 1  # DLPack's number of host memory


@dataclass
class AotpackConfig(DynamoConfig):  # type: ignore[misc]
    """Options of the export, and ``targets`` as for ``aotpack.build``."""

    export_format: str = FORMAT
    targets: str = "native"


@dataclass(eq=False)
class Wheel:
    """The content of a wheel, which is loaded once for each device."""

    content: bytes
    methods: set[str] = field(default_factory=set)  # that were read from its file
    _loaded: dict[str | None, Any] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def loaded(self, place: str | None) -> Any:
        """The package on a device: one for all methods, whichever threads ask for it."""
        with self._lock:
            if place not in self._loaded:
                with temporary_folder("loading the exported model") as folder:
                    with zipfile.ZipFile(io.BytesIO(self.content)) as archive:
                        archive.extractall(folder)
                    self._loaded[place] = load(folder / PACKAGE, place)
            return self._loaded[place]


@dataclass(frozen=True)
class Program:
    """A method of a wheel, or, without a name, the only one."""

    wheel: Wheel
    method: str = ""


class _Programs(DynamoExporter):  # type: ignore[misc]
    """Programs of torch, from our configurations."""

    config_class = AotpackConfig


class AotpackExporter(DynamoExporter):  # type: ignore[misc]
    """torch.export as transformers calls it, then a build: one wheel for all graphs of a model.

    Beside the wheel, a file for each graph names its method.
    """

    export_format = FORMAT
    config_class = AotpackConfig
    program_suffix = ".method.json"

    def export_program(
        self, model: Any, sample_inputs: MutableMapping[str, Any], config: AotpackConfig
    ) -> tuple[Program, ExportMetadata]:
        """A wheel for one graph."""
        program, metadata = super().export_program(model, sample_inputs, config)
        return Program(_built(program, *program.example_inputs, targets=config.targets)), metadata

    def export_for_generation(self, *args: Any, **options: Any) -> ExportedModel:
        """As for programs of torch; the graphs, such as prefill and decode, share their weights."""
        exported = _Programs().export_for_generation(*args, **options)
        parts = exported.components
        targets = {part.metadata.export_config["targets"] for part in parts.values()}
        if len(targets) > 1:
            raise UsageError(
                f"exporting for generation: the components have the targets {sorted(targets)}; one "
                "wheel holds them, so give each the same"
            )
        methods = {
            name: Method(part.program, *part.program.example_inputs) for name, part in parts.items()
        }
        wheel = _built(methods, targets=targets.pop())
        for name, part in parts.items():
            part.program = Program(wheel, name)
        exported.export_format = FORMAT
        return exported

    @classmethod
    def save_program(cls, program: Program, path: str | Path) -> None:
        """Write the file of a method, and the wheel unless another method has."""
        wheel = Path(path).with_name(WHEEL)
        if wheel.exists() and wheel.read_bytes() != program.wheel.content:
            raise UsageError(
                f"saving {path}: {wheel.name} beside it is of another export; one folder holds the "
                "components of one export, so save each export to its own"
            )
        if not wheel.exists():
            wheel.write_bytes(program.wheel.content)
        Path(path).write_text(json.dumps({"method": program.method}) + "\n", encoding="utf-8")

    @classmethod
    def load_program(cls, path: str | Path) -> Program:
        """Read a method; those of a folder that are read one after another share their wheel."""
        method = json.loads(Path(path).read_text(encoding="utf-8"))["method"]
        return Program(_read(Path(path).with_name(WHEEL), method), method)

    @classmethod
    def program_files(cls, filename: str) -> list[str]:
        """The file of a method, and the wheel."""
        return [filename, WHEEL]


def _built(module: ExportedProgram | Mapping[str, Method], *inputs: Any, targets: str) -> Wheel:
    with temporary_folder("exporting the model") as folder:
        wheel = build(module, *inputs, name=PACKAGE, targets=targets, out=folder)
        return Wheel(wheel.read_bytes())


_LAST = threading.local()  # the wheel that this thread read last


def _read(path: Path, method: str) -> Wheel:
    """The wheel of a file: the one that was read last, if this is another method of it.

    So each exported model has a package, and perhaps state, of its own.
    """
    content = path.read_bytes()
    held: Wheel | None = getattr(_LAST, "wheel", lambda: None)()
    if held is None or method in held.methods or held.content != content:
        held = Wheel(content)
    held.methods.add(method)
    _LAST.wheel = weakref.ref(held)
    return held


class AotpackRunner(ModelRunner):  # type: ignore[misc]
    """Calls a package in this process, with the arguments and results of the model."""

    def __init__(self, program: Program, metadata: ExportMetadata, device: Any) -> None:
        super().__init__(metadata)
        self.model = program.wheel.loaded(None if device is None else str(device))
        self.method = getattr(self.model, program.method) if program.method else self.model

    @classmethod
    def from_program(
        cls, program: Program, metadata: ExportMetadata, device: Any = None
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
        signature = self.method.signature
        taken = {name: given[name] for name in signature.kwargs.keys if name in given}
        found = self.method(**taken)
        leaves: list[Any] = []
        flatten(signature.result, found, "the result", leaves)
        return self.unflatten([torch.as_tensor(one) for one in leaves])


register_backend(AotpackExporter, AotpackRunner)
