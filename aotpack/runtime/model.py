"""A loaded model: a callable with the traced module's arguments and results.

A call reads addresses off its arguments, checks them, stores them into a prepared plan and issues
the launches; it allocates only outputs, and waits only for numpy arrays.
"""

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from .arena import Arena, ArenaPool
from .binding import Binder
from .changes import byte_sizes, changed_inputs, check_apart, check_writable, copy_back
from .device import Device, active
from .device_array import DeviceArray
from .dtypes import present
from .errors import AotpackError, ArgumentError
from .frameworks import Framework, Frameworks, Reading
from .guards import check_call
from .manifest import Manifest, Signature
from .plan import Plan
from .prepare import Loaded, Prepared, prepare
from .safetensors import read_safetensors
from .trees import unflatten
from .weights import Weights

POINTER_ALIGNMENT = 16
CHECKED_KEPT = 1024


@dataclass(frozen=True, slots=True)
class _Checked:
    """A call that passed the guards: its sizes, and the arguments to be copied to the device."""

    sizes: tuple[int, ...]
    uploads: frozenset[int]
    input_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """What loading made of a package."""

    manifest: Manifest
    device: Device
    target: str
    arch: int
    kernels: Mapping[str, Loaded]
    plan: Callable[..., Plan]
    stream: int | None
    concurrency: int


class Model:
    """A packaged model on one device. Calls may come from any thread."""

    def __init__(self, parts: Parts) -> None:
        self.signature: Signature = parts.manifest.signature
        self.targets: tuple[str, ...] = parts.manifest.targets
        self.target: str = parts.target
        self.manifest = parts.manifest
        self.device: Device = parts.device
        self._parts = parts
        self._stream = parts.stream
        self._binder = Binder(self.signature)
        self._frameworks = Frameworks(parts.device, parts.stream)
        name, updates = self.signature.name, self.signature.updates
        self._weights = Weights(name, parts.device, parts.manifest.weights, updates)
        self._changed = changed_inputs(self.signature)
        has_state = len(updates) > len(self._changed)
        limit = 1 if has_state else parts.concurrency  # calls that change it go one by one
        self._pool: ArenaPool[Prepared] = ArenaPool(name, parts.device, limit)
        self._checked: dict[tuple[Any, ...], _Checked] = {}
        self._is_single = self.signature.result.kind == "leaf"
        self._release = weakref.finalize(self, _release, self._pool, self._weights, self.device)
        self._release.atexit = False  # the process gives all memory back by itself

    def __repr__(self) -> str:
        return f"<Model {self.signature.name} {self.signature.version} on {self.device.name}>"

    @property
    def memory(self) -> int:
        """Peak device bytes of one call at the largest sizes: weights and intermediates."""
        return self._weights.total + self.manifest.peak_bytes

    @property
    def kernels(self) -> Mapping[str, Loaded]:
        """The kernels of the chosen target."""
        return self._parts.kernels

    def plan_with(self, sizes: tuple[int, ...], pick: Callable[..., Any]) -> Plan:
        """The plan for sizes where ``pick(key, *forms)`` chooses between forms of a launch."""
        return self._parts.plan(self._parts.arch, *sizes, pick=pick)

    def weight_places(self) -> dict[str, tuple[int, int]]:
        """The address and the bytes of each weight, with those that lie right behind it."""
        return self._weights.places()

    @property
    def state(self) -> dict[str, DeviceArray]:
        """The buffers that calls change, by name: the model's own memory, after all calls so far.

        Writing there (through DLPack) changes what the next call starts from.
        """
        with active(self.device), self._pool.idle():
            self.device.synchronize(None)
            return {
                weight.name: DeviceArray.over(
                    self.device, address, weight.shape, weight.dtype, self
                )
                for weight, address in self._weights.state()
            }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result, in the caller's framework and on the caller's stream.

        Results are not waited for, but numpy ones are.
        """
        leaves = self._binder.leaves(args, kwargs)
        device = self.device
        entered = device.enter()
        try:
            results = self._run(leaves)
        finally:
            if entered:
                device.leave()
        return results[0] if self._is_single else unflatten(self.signature.result, results)

    def bind_weights(self, mapping: Mapping[str, Any] | str | Path, strict: bool = True) -> None:
        """Replace the weights by tensors or by a safetensors file, all or (not strict) some.

        Calls in flight are finished first; the tensors are copied and may be dropped afterwards.
        """
        given = read_safetensors(Path(mapping)) if isinstance(mapping, (str, Path)) else mapping
        with active(self.device), self._pool.idle():
            self.device.synchronize(None)
            try:
                self._weights.bind(given, self._frameworks, strict=strict)
            finally:
                self._pool.forget()

    def close(self) -> None:
        """Wait for calls in flight and give back all device memory; a second close does nothing."""
        self._release()

    def __enter__(self) -> "Model":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, leaves: Sequence[Any]) -> list[Any]:
        of = self._frameworks.of
        try:
            found = [of(leaf) for leaf in leaves]
        except ArgumentError as error:
            raise self._named(leaves, error) from None
        caller = self._frameworks.of_call(found)
        stream = self._stream if self._stream is not None else caller.stream()
        readings = [
            framework.read(leaf, stream) for framework, leaf in zip(found, leaves, strict=True)
        ]
        key = tuple([reading[1] for reading in readings])
        checked = self._checked.get(key) or self._check(key, found)
        if self._changed:
            for index in self._changed:
                check_writable(self.signature, index, leaves[index])
            check_apart(self.signature, self._changed, readings, checked.input_bytes)
        arena = self._pool.take(stream)
        try:
            return self._issue(arena, checked, readings, caller, stream)
        finally:
            self._pool.give(arena)

    def _issue(
        self,
        arena: Arena[Prepared],
        checked: _Checked,
        readings: Sequence[Reading],
        caller: Framework,
        stream: int,
    ) -> list[Any]:
        prepared = arena.plan(checked.sizes) or self._prepare(arena, checked.sizes)
        outputs = [caller.empty(shape, dtype, stream) for shape, dtype in prepared.outputs]
        addresses = [reading[0] for reading in readings]
        together = 0
        for address in addresses:
            together |= address
        arena.begin(stream)
        try:
            if checked.uploads or together % POINTER_ALIGNMENT:
                self._stage_inputs(arena, checked, addresses, stream)
            addresses += [address for _, address in outputs]
            copied = self._stage_outputs(arena, prepared, addresses, len(readings))
            prepared.store(addresses)
            prepared.issue(stream)
            if self._changed:
                self._return_changes(checked, readings, addresses, stream)
        finally:
            arena.end(stream)
        results = [value for value, _ in outputs]
        if caller.name == "numpy":
            self._fetch(prepared, results, copied, stream)
        return results

    def _check(self, key: tuple[Any, ...], found: Sequence[Framework]) -> _Checked:
        seen = [framework.seen(facts) for framework, facts in zip(found, key, strict=True)]
        sizes = check_call(self.signature, seen, self.device.place)
        uploads = frozenset(i for i, one in enumerate(seen) if one.place != self.device.place)
        input_bytes = byte_sizes(self.signature, [one.shape for one in seen])
        checked = _Checked(tuple(sizes.values()), uploads, input_bytes)
        if len(self._checked) >= CHECKED_KEPT:
            self._checked.clear()
        self._checked[key] = checked
        return checked

    def _prepare(self, arena: Arena[Prepared], sizes: tuple[int, ...]) -> Prepared:
        weights = self._weights.addresses()
        parts = self._parts
        plan = parts.plan(parts.arch, *sizes)
        prepared = prepare(self.signature, plan, parts.kernels, weights, arena, parts.device)
        arena.keep(sizes, prepared)
        return prepared

    def _stage_inputs(
        self, arena: Arena[Prepared], checked: _Checked, addresses: list[int], stream: int
    ) -> None:
        """Copy host arguments to the device, and unaligned ones to an aligned place."""
        for index, size in enumerate(checked.input_bytes):
            is_upload = index in checked.uploads
            if size and (is_upload or addresses[index] % POINTER_ALIGNMENT):
                target = arena.staging(("input", index), size)
                copy = self.device.copy_in if is_upload else self.device.copy
                copy(target, addresses[index], size, stream)
                addresses[index] = target

    def _return_changes(
        self, checked: _Checked, readings: Sequence[Reading], addresses: list[int], stream: int
    ) -> None:
        """Copy changed arguments that were staged back to the caller's memory."""
        copies = [
            (index in checked.uploads, (origin, addresses[index], checked.input_bytes[index]))
            for index in self._changed
            if (origin := readings[index][0]) != addresses[index]
        ]
        copy_back(self.device, copies, stream)

    def _stage_outputs(
        self, arena: Arena[Prepared], prepared: Prepared, addresses: list[int], first: int
    ) -> list[tuple[int, int, int]]:
        """Device memory for outputs that are copied to the host: (output, address, bytes)."""
        copied = []
        for index, (shape, dtype) in enumerate(prepared.outputs):
            if addresses[first + index] == -1:
                size = math.prod(shape) * dtype.itemsize
                address = arena.staging(("output", index), size) if size else 0
                addresses[first + index] = address
                copied.append((index, address, size))
        return copied

    def _fetch(
        self,
        prepared: Prepared,
        results: list[Any],
        copied: Sequence[tuple[int, int, int]],
        stream: int,
    ) -> None:
        """Bring numpy results to the host and wait for them."""
        for index, address, size in copied:
            self.device.copy_out(results[index].ctypes.data, address, size, stream)
        self.device.synchronize(stream)
        for index, (_, dtype) in enumerate(prepared.outputs):
            results[index] = present(results[index], dtype)

    def _named(self, leaves: Sequence[Any], error: ArgumentError) -> AotpackError:
        """``error`` with the name of the argument that is no tensor."""
        for tensor, leaf in zip(self.signature.inputs, leaves, strict=True):
            try:
                self._frameworks.of(leaf)
            except ArgumentError:
                return ArgumentError(
                    f"calling {self.signature.name}: argument {tensor.name!r}: {error}"
                )
        return error


def _release(pool: ArenaPool[Prepared], weights: Weights, device: Device) -> None:
    with active(device):
        pool.close()
        weights.free()
    device.close()
