"""What the methods of a loaded package share: the device, weights and state, arenas, kernels."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ..arrays.device_array import DeviceArray
from ..arrays.frameworks import Frameworks
from ..checks.assertions import Assertions
from ..derive import WeightProgram
from ..devices.device import Device, active
from ..errors import ArgumentError, did_you_mean
from ..manifest import Manifest
from ..memory.adapters import parts_of
from ..memory.layout import Loaded
from ..memory.pool import ArenaPool
from ..memory.weights import Weights
from ..prepare import Prepared
from ..safetensors import read_safetensors
from ..torch_calls import TorchCalls

ResultT = TypeVar("ResultT")
PackageT = TypeVar("PackageT", bound="Package")


@dataclass(frozen=True, slots=True)
class Options:
    """How calls are run: the options of ``load``."""

    stream: int | None
    concurrency: int
    graphs: bool
    debug: str | None


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a loaded package; its manifest has the derived weights of all methods."""

    manifest: Manifest
    device: Device
    target: str
    arch: int
    kernels: Mapping[str, Loaded]
    weight_program: WeightProgram | None
    options: Options
    calls: TorchCalls | None


class LoadedMemory:
    """The memory of a loaded package, freed once nobody holds it: the package, or a method."""

    def __init__(self, parts: Parts) -> None:
        manifest = parts.manifest
        name = manifest.signature.name
        self.parts = parts
        self.weights = Weights(manifest, parts.device, parts.weight_program)
        changed = manifest.changed
        self.has_state = any(weight.name in changed for weight in manifest.weights)
        # calls that change state are serialised
        limit = 1 if self.has_state else parts.options.concurrency
        self.pool: ArenaPool[Prepared] = ArenaPool(name, parts.device, limit)
        self.assertions: list[Assertions] = []  # of each method
        held = self.pool, self.weights, self.assertions, parts.device
        self.finalizer = weakref.finalize(self, _release, *held)
        self.finalizer.atexit = False  # at exit the process frees all memory

    def exclusively(self, doing: str, work: Callable[[], ResultT]) -> ResultT:
        """The result of ``work``, on the device; no call is in flight meanwhile."""
        with active(self.parts.device):
            return self.pool.exclusively(doing, work)

    def synchronize(self) -> None:
        """Wait for all calls so far; raises AssertionFailed if an assertion failed in one."""
        self.exclusively("waiting for", self.wait)

    def wait(self) -> None:
        """The same, where no call is in flight."""
        self.parts.device.synchronize(None)
        for one in self.assertions:
            one.raise_failed()

    def free(self) -> None:
        """Free everything. After an exception in it, another call frees the rest."""
        if self.finalizer.alive:
            _release(self.pool, self.weights, self.assertions, self.parts.device)
            self.finalizer.detach()


class OnDevice:
    """What a package and each of its methods tell of what is loaded."""

    def __init__(self, held: LoadedMemory, manifest: Manifest) -> None:
        self.manifest = manifest
        self.device: Device = held.parts.device
        self._held = held
        self._pool, self._weights = held.pool, held.weights

    def __setattr__(self, name: str, value: Any) -> None:
        """What is public is read-only: a call would not follow it."""
        if not name.startswith("_") and self.__dict__.get(name, value) is not value:
            raise AttributeError(
                f"attribute {name!r} of a loaded model is read-only; load the package once more "
                "with other options, or give the model's arguments in calls"
            )
        object.__setattr__(self, name, value)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refused: a copy would need the device's memory and code."""
        name = self._held.parts.manifest.signature.name
        raise ArgumentError(
            f"copying {name}: a loaded model holds memory and code of its device, and is neither "
            f"pickled nor copied. Load the package once more, in each process: {name}.load()"
        )

    @property
    def target(self) -> str:
        """The target whose binaries run."""
        return self._held.parts.target

    @property
    def kernels(self) -> Mapping[str, Loaded]:
        """The kernels of the chosen target."""
        return self._held.parts.kernels

    @property
    def calls(self) -> TorchCalls | None:
        """The operators that torch runs between launches, if any."""
        return self._held.parts.calls


class Package(OnDevice):
    """A loaded package on one device."""

    def __init__(self, held: LoadedMemory, manifest: Manifest) -> None:
        super().__init__(held, manifest)
        self.targets: tuple[str, ...] = self.manifest.targets

    @property
    def state(self) -> "State":
        """The buffers that calls change, by name: views of the model's memory after all calls.

        Writing to them (through DLPack) changes the state before the next call. Their memory lives
        as long as a view, even if the model is closed.
        """
        return self._exclusively("reading the state of", self._views)

    def synchronize(self) -> None:
        """Wait for all calls so far; raises AssertionFailed if an assertion failed in one."""
        self._held.synchronize()

    def bind_weights(
        self,
        mapping: Mapping[str, Any] | str | Path,
        strict: bool = True,
        digests: Sequence[str] = (),
        adapter: str | None = None,
    ) -> None:
        """Replace the weights by tensors or by a safetensors file, all or (not strict) some.

        A state_dict of the model is accepted: entries that the package does not use are ignored.
        Names that the model does not have are refused. ``digests`` are the sha256 of a file's
        chunks (``manifest.weights_chunks``), which are checked as it is read.

        A file of PEFT, or tensors by its names, replaces one adapter: the only one, or ``adapter``.
        Strictly it has all weights of the adapter. The factors of its layers are those that
        ``adapter_config.json`` beside the file says. A strict binding of the model's weights puts
        the factors of all adapters back to those of the build, except for those that it has.

        Weights that share memory in the model are given together: a package has each in its own.

        Waits for calls in flight. The tensors are copied and may be freed afterwards.
        """
        self._bind(mapping, strict=strict, digests=digests, adapter=adapter)

    def _bind(
        self,
        mapping: Mapping[str, Any] | str | Path,
        *,
        strict: bool,
        digests: Sequence[str] = (),
        adapter: str | None = None,
        is_own: bool = False,
    ) -> None:
        """Bind what is given. What ``is_own`` comes from the package's files, which have all."""
        path = Path(mapping) if isinstance(mapping, (str, Path)) else None
        given: Any = mapping if path is None else read_safetensors(path)
        parts = parts_of(given, self.manifest, adapter, path, strict=strict)
        frameworks = Frameworks(self.device, self._held.parts.options.stream)

        def bind() -> None:
            self.device.synchronize(None)
            self._pool.forget()  # the addresses in plans may change
            for part in parts:
                self._weights.bind(part, frameworks, strict=False, digests=digests)
            if not parts:
                self._weights.bind(given, frameworks, strict=strict, digests=digests, is_own=is_own)

        self._exclusively("binding weights to", bind)

    def poison(self) -> None:
        """Fill the memory of intermediates with NaN, to expose reads of unwritten memory."""

        def poison() -> None:
            self.device.synchronize(None)
            self._pool.poison()

        self._exclusively("poisoning", poison)

    def close(self) -> None:
        """Wait for calls in flight and free all device memory; a second close does nothing.

        Raises AssertionFailed for a failed assertion that no call has raised.
        """
        try:
            if any(self._held.assertions) and not self._pool.is_closed:
                self.synchronize()
        finally:
            self._held.free()

    def __enter__(self: PackageT) -> PackageT:
        self._pool.check_open("entering")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self._held.free()

    def _exclusively(self, doing: str, work: Callable[[], ResultT]) -> ResultT:
        return self._held.exclusively(doing, work)

    def _views(self) -> "State":
        self._held.wait()
        block = self._weights.block
        views = {
            weight.name: DeviceArray.over(self.device, address, weight.shape, weight.dtype, block)
            for weight, address in self._weights.state().parts
        }
        return State(views)


class State(Mapping[str, DeviceArray]):
    """Views of buffers by name; another name is answered with the near one."""

    def __init__(self, views: Mapping[str, DeviceArray]) -> None:
        self._views = views

    def __getitem__(self, name: str) -> DeviceArray:
        if name not in self._views:
            hint = did_you_mean(str(name), self) or f"; it has {', '.join(self) or 'nothing'}"
            raise KeyError(f"the state has no {name!r}{hint}")
        return self._views[name]

    def __setitem__(self, name: str, value: object) -> None:
        """Refused: the memory is the model's."""
        raise ArgumentError(
            f"setting {name!r} of the state: its memory is the model's. Write to that with "
            f"bind_weights({{{name!r}: ...}}, strict=False), or torch.from_dlpack(state[{name!r}])"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        return f"State({dict(self._views)})"


def _release(
    pool: ArenaPool[Prepared], weights: Weights, assertions: Sequence[Assertions], device: Device
) -> None:
    with active(device):
        pool.close()
        weights.free()
        for one in assertions:
            one.free()
    device.close()
