"""A loaded model: a callable with the arguments and results of the traced module.

A call reads its arguments' addresses, checks the arguments, stores the addresses into a prepared
plan and issues it. It allocates only outputs, and synchronises only for numpy arrays.
"""

import sys
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from pathlib import Path
from types import GenericAlias, TracebackType
from typing import Any, ClassVar, TypeVar

from .arrays.device_array import DeviceArray
from .arrays.frameworks import Framework, Frameworks
from .binding import Binder
from .checks.assertions import Assertions
from .checks.changes import (
    byte_sizes,
    changed_inputs,
    check_no_aliases,
    check_not_state,
    check_writable,
)
from .checks.debugging import Watch, lengths_of
from .checks.guards import check_call, needs_copy
from .checks.memory import LOW_ADDRESS, check_memory
from .checks.plans import check_plan, check_types
from .derive import WeightProgram
from .devices.device import Device, active, is_host
from .errors import AotpackError, ArgumentError
from .interface.listing import TensorInfo, inputs_of, outputs_of
from .manifest import Manifest, Signature
from .memory.arena import Arena
from .memory.layout import Loaded
from .memory.pool import ArenaPool
from .memory.weights import Weights
from .plan import Plan
from .prepare import Prepared, prepare
from .safetensors import read_safetensors
from .staging import (
    POINTER_ALIGNMENT,
    CheckedCall,
    Results,
    fetch,
    return_changes,
    stage_inputs,
    stage_outputs,
)
from .structures.trees import unflattener
from .torch_calls import TorchCalls

ResultT = TypeVar("ResultT")
CHECKED_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Options:
    """How calls are run: the options of ``load``."""

    stream: int | None
    concurrency: int
    graphs: bool
    debug: str | None


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a loaded package."""

    manifest: Manifest
    device: Device
    target: str
    arch: int
    kernels: Mapping[str, Loaded]
    plan: Callable[..., Plan]
    weight_program: WeightProgram | None
    options: Options
    calls: TorchCalls | None


class Model:
    """A packaged model on one device. Calls may come from any thread."""

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)  # stubs are generic in arrays

    def __init__(self, parts: Parts) -> None:
        self.signature: Signature = parts.manifest.signature
        self.targets: tuple[str, ...] = parts.manifest.targets
        self.target: str = parts.target
        self.manifest = parts.manifest
        self.device: Device = parts.device
        self._parts = parts
        self._stream = parts.options.stream
        self._binder = Binder(self.signature)
        is_ordered = any(tensor.order for tensor in self.signature.inputs)
        self._frameworks = Frameworks(parts.device, self._stream, with_strides=is_ordered)
        name, updates = self.signature.name, self.signature.updates
        self._weights = Weights(parts.manifest, parts.device, parts.weight_program)
        self._changed = changed_inputs(self.signature)
        self._has_state = len(updates) > len(self._changed)
        # Calls that change state are serialised.
        limit = 1 if self._has_state else parts.options.concurrency
        self._pool: ArenaPool[Prepared] = ArenaPool(name, parts.device, limit)
        self._checked: dict[Hashable, CheckedCall] = {}
        self._arranged = unflattener(self.signature.result)
        self._assertions = Assertions(name, parts.device, self.signature.assertions)
        # A call that synchronises raises its own failed assertions.
        self._is_waited_for = is_host(parts.device) or parts.options.debug is not None
        held = self._pool, self._weights, self._assertions, self.device
        self._finalizer = weakref.finalize(self, _release, *held)
        self._finalizer.atexit = False  # at exit the process frees all memory

    def __repr__(self) -> str:
        return f"<Model {self.signature.name} {self.signature.version} on {self.device.name}>"

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs in order: names, types, shapes and ranges of sizes."""
        return inputs_of(self.signature, self.device.name, POINTER_ALIGNMENT)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs in order, like ``inputs``."""
        return outputs_of(self.signature, self.device.name, POINTER_ALIGNMENT)

    @property
    def memory(self) -> int:
        """Peak device bytes of one call at the largest sizes: weights and intermediates."""
        return self._weights.total + self.manifest.peak_bytes

    @property
    def kernels(self) -> Mapping[str, Loaded]:
        """The kernels of the chosen target."""
        return self._parts.kernels

    @property
    def calls(self) -> TorchCalls | None:
        """The operators that torch runs between launches, if any."""
        return self._parts.calls

    def plan_with(self, sizes: tuple[int, ...], pick: Callable[..., Any]) -> Plan:
        """The plan for sizes where ``pick(key, *forms)`` chooses between forms of a launch."""
        return self._parts.plan(self._parts.arch, *sizes, pick=pick)

    def weight_places(self) -> dict[str, tuple[int, int]]:
        """The address of each weight, and its bytes with those of the weights that follow it."""
        self._pool.check_open("asking for the weights of")
        return self._weights.places()

    @property
    def state(self) -> dict[str, DeviceArray]:
        """The buffers that calls change, by name: views of the model's memory after all calls.

        Writing to them (through DLPack) changes the state before the next call. Their memory lives
        as long as a view, even if the model is closed.
        """
        return self._exclusively("reading the state of", self._views)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result, in the caller's framework and on the caller's stream.

        Only numpy results are synchronised. A failed assertion raises AssertionFailed: at the end
        of a call that synchronises (on CPUs, with numpy results, with ``debug``), else in the first
        call that begins after the device has set its flag.
        """
        leaves = self._binder.leaves(args, kwargs)
        device = self.device
        entered = device.enter()
        try:
            results = self._run(leaves)
        finally:
            if entered:
                device.leave()
        return self._arranged(results)

    def synchronize(self) -> None:
        """Wait for all calls so far; raises AssertionFailed if an assertion failed in one."""
        self._exclusively("waiting for", self._wait)

    def bind_weights(
        self,
        mapping: Mapping[str, Any] | str | Path,
        strict: bool = True,
        digests: Sequence[str] = (),
    ) -> None:
        """Replace the weights by tensors or by a safetensors file, all or (not strict) some.

        A state_dict of the model is accepted: entries that the package does not use are ignored.
        Names that the model does not have are refused. ``digests`` are the sha256 of a file's
        chunks (``manifest.weights_chunks``), which are checked as it is read.

        Waits for calls in flight. The tensors are copied and may be freed afterwards.
        """
        given = read_safetensors(Path(mapping)) if isinstance(mapping, (str, Path)) else mapping

        def bind() -> None:
            self.device.synchronize(None)
            self._pool.forget()  # the addresses in plans may change
            self._weights.bind(given, self._frameworks, strict=strict, digests=digests)

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
            if self._assertions and not self._pool.is_closed:
                self.synchronize()
        finally:
            self._close()

    def __enter__(self) -> "Model":
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
            self._close()

    def _close(self) -> None:
        """Free everything. After an exception in it, another call frees the rest."""
        if self._finalizer.alive:
            _release(self._pool, self._weights, self._assertions, self.device)
            self._finalizer.detach()

    def _exclusively(self, doing: str, work: Callable[[], ResultT]) -> ResultT:
        """The result of ``work``, on this device; no call is in flight meanwhile."""
        with active(self.device):
            return self._pool.exclusively(doing, work)

    def _wait(self) -> None:
        self.device.synchronize(None)
        self._assertions.raise_failed()

    def _views(self) -> dict[str, DeviceArray]:
        self._wait()
        block = self._weights.block
        return {
            weight.name: DeviceArray.over(self.device, address, weight.shape, weight.dtype, block)
            for weight, address in self._weights.state()
        }

    def _run(self, leaves: Sequence[Any]) -> list[Any]:
        try:
            caller = self._frameworks.of_call(leaves)
            stream = self._stream if self._stream is not None else caller.stream()
            addresses, facts, _owners = caller.read(leaves, stream)
            checked = self._checked.get(facts) or self._check(facts, caller, leaves)
        except ArgumentError as error:
            raise self._named(leaves, error) from None
        for index in self._changed:
            check_writable(self.signature, index, leaves[index])
        if checked.copies:
            leaves = caller.copied(leaves, checked.copies, stream)
            addresses, _, _owners = caller.read(leaves, stream)
        if addresses and min(addresses) < LOW_ADDRESS:
            check_memory(self.signature, leaves, addresses, checked.input_bytes)
        if self._changed:
            check_no_aliases(self.signature, self._changed, addresses, checked.input_bytes)
        if self._has_state:
            state = self._weights.state()
            check_not_state(self.signature, state, addresses, checked.input_bytes)
        capture = self.device.capture(stream)
        if self._assertions and not capture and self._assertions.is_any_set:
            self.synchronize()
        recording = (capture, stream, checked.sizes) if capture else None
        arena = self._pool.take(sys._getframe(), stream, recording)
        failed = None
        try:
            results = self._issue(arena, checked, addresses, caller, stream)
            if arena.flags and (self._is_waited_for or caller.name == "numpy"):
                failed = self._assertions.failure(arena.flags)
        except BaseException:
            self._pool.drop(arena)
            raise
        self._pool.give(arena)
        if failed is not None:
            raise failed
        return results

    def _issue(
        self,
        arena: Arena[Prepared],
        checked: CheckedCall,
        inputs: list[int],
        caller: Framework,
        stream: int,
    ) -> list[Any]:
        prepared = arena.plan(checked.sizes) or self._prepare(arena, checked.sizes, stream)
        late = prepared.late
        if late is None:
            specs: Sequence[Any] = prepared.outputs
            results, outputs = caller.empty(specs, stream)
        else:
            made = late.begin(Results(caller, arena, prepared.outputs, stream))
            specs, results, outputs = made.specs, made.values, made.addresses
        arena.begin(stream)
        used = inputs
        if checked.uploads or reduce(or_, inputs, 0) % POINTER_ALIGNMENT:
            used = stage_inputs(self.device, arena, checked, inputs, stream)
        copied = stage_outputs(arena, specs, outputs) if late is None else made.copied
        prepared.store(used + outputs)
        prepared.issue(stream)
        if late is not None:
            late.end()
        if self._changed:
            return_changes(self.device, checked, self._changed, inputs, used, stream)
        arena.end(stream)
        if caller.name == "numpy":
            fetch(self.device, results, specs, copied, stream)
        return results

    def _check(self, facts: Hashable, caller: Framework, leaves: Sequence[Any]) -> CheckedCall:
        seen = caller.seen(facts, leaves)
        sizes = check_call(self.signature, seen, self.device.place)
        uploads = frozenset(i for i, one in enumerate(seen) if one.place != self.device.place)
        input_bytes = byte_sizes(self.signature, [one.shape for one in seen])
        copies = tuple(
            (index, tensor.dtype, tensor.order)
            for index, (tensor, one) in enumerate(zip(self.signature.inputs, seen, strict=True))
            if needs_copy(tensor, one)
        )
        checked = CheckedCall(tuple(sizes.values()), uploads, input_bytes, copies)
        if len(self._checked) >= CHECKED_KEPT:
            self._checked.clear()
        self._checked[facts] = checked
        return checked

    def _prepare(self, arena: Arena[Prepared], sizes: tuple[int, ...], stream: int) -> Prepared:
        parts = self._parts
        plan = parts.plan(parts.arch, *sizes)
        check_plan(self.manifest, plan, sizes)
        if self._assertions and arena.flags is None:
            arena.flags = self._assertions.new_flags()
        flags = arena.flags.addresses if arena.flags else {}
        prepared = prepare(
            self.signature,
            plan,
            parts.kernels,
            {**self._weights.addresses(), **flags},
            arena,
            parts.device,
            parts.calls,
            stream=stream,
            graphs=parts.options.graphs and arena.recording is None,
            watch=self._watch(plan, sizes),
            check=partial(self._assertions.raise_failed, arena.flags) if arena.flags else None,
            sizes={size.name: n for size, n in zip(self.signature.sizes, sizes, strict=True)},
            check_rest=partial(check_types, self.manifest),
        )
        arena.keep(sizes, prepared)
        return prepared

    def _watch(self, plan: Plan, sizes: tuple[int, ...]) -> Watch | None:
        mode = self._parts.options.debug
        if mode is None:
            return None
        found = lengths_of(self.manifest, sizes, plan)
        return Watch(self.signature.name, self.device, mode, found)

    def _named(self, leaves: Sequence[Any], error: ArgumentError) -> AotpackError:
        """``error`` with the path of the argument that cannot be read."""
        for path, leaf in zip(self.signature.paths, leaves, strict=True):
            try:
                framework = self._frameworks.of(leaf)
                framework.seen((framework.read((leaf,), 0)[1]), (leaf,))
            except ArgumentError:
                return ArgumentError(f"calling {self.signature.name}: argument {path!r}: {error}")
        return error


def _release(
    pool: ArenaPool[Prepared], weights: Weights, assertions: Assertions, device: Device
) -> None:
    with active(device):
        pool.close()
        weights.free()
        assertions.free()
    device.close()
