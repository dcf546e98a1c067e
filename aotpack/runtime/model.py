"""A loaded model: a callable with the arguments and results of the traced module.

A call reads its arguments' addresses, checks the arguments, stores the addresses into a prepared
plan and issues it. It allocates only outputs, and synchronises only for numpy arrays.
"""

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .arrays.complex_views import ComplexViews
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
from .checks.guards import check_call, needs_copy, number_hint
from .checks.memory import check_memory
from .checks.plans import check_plan, check_types
from .devices.device import is_host
from .errors import AotpackError, ArgumentError, did_you_mean
from .interface.listing import TensorInfo, inputs_of, outputs_of
from .interface.package import LoadedMemory, OnDevice, Package
from .manifest import Manifest, Signature
from .memory.arena import Arena
from .plan import Plan
from .prepare import Prepared, prepare
from .staging import (
    POINTER_ALIGNMENT,
    CheckedCall,
    Results,
    are_usual,
    fetch,
    return_changes,
    stage_inputs,
    stage_outputs,
)
from .structures.trees import unflattener

CHECKED_KEPT = 1024
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Program:
    """What a method has of its own; ``names`` are those of its weights in the package."""

    manifest: Manifest
    plan: Callable[..., Plan]
    names: Mapping[str, str] | None = None  # None: all weights, by their own names


class Method(OnDevice):
    """A method of a loaded package. Calls may come from any thread."""

    def __init__(self, held: LoadedMemory, program: Program) -> None:
        OnDevice.__init__(self, held, program.manifest)
        parts, manifest = held.parts, program.manifest
        self.signature: Signature = manifest.signature
        self._program = program
        self._key: tuple[str, ...] = (manifest.method,) if manifest.method else ()
        self._stream = parts.options.stream
        self._binder = Binder(self.signature)
        is_ordered = any(tensor.order for tensor in self.signature.inputs)
        self._frameworks = Frameworks(parts.device, self._stream, with_strides=is_ordered)
        has_complex = any(one.pairs for one in (*self.signature.inputs, *self.signature.outputs))
        self._complex = ComplexViews(self.signature) if has_complex else None
        self._changed = changed_inputs(self.signature)
        self._has_state = len(self.signature.updates) > len(self._changed)
        self._checked: dict[Hashable, CheckedCall] = {}
        self._arranged = unflattener(self.signature.result)
        name = self.signature.name
        self._assertions = Assertions(name, parts.device, self.signature.assertions)
        self._has_assertions = bool(self._assertions)
        held.assertions.append(self._assertions)
        # A call that synchronises raises its own failed assertions.
        self._is_waited_for = is_host(parts.device) or parts.options.debug is not None

    def __repr__(self) -> str:
        return f"<Method {self.signature.name} on {self.device.name}>"

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
        names = self._program.names
        weights = self._weights.total if names is None else self._weights.bytes_of(names.values())
        return weights + self.manifest.peak_bytes

    def plan_with(self, sizes: tuple[int, ...], pick: Callable[..., Any]) -> Plan:
        """The plan for sizes where ``pick(key, *forms)`` chooses between forms of a launch."""
        return self._program.plan(self._held.parts.arch, *sizes, pick=pick)

    def weight_places(self) -> dict[str, tuple[int, int]]:
        """The address of each weight, and its bytes with those of the weights that follow it."""
        self._pool.check_open("asking for the weights of")
        return self._named_here(self._weights.places())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result, in the caller's framework and on the caller's stream.

        Only numpy results are synchronised. A failed assertion raises AssertionFailed: at the end
        of a call that synchronises (on CPUs, with numpy results, with ``debug``), else in the first
        call that begins after the device has set its flag.
        """
        leaves = self._binder.leaves(args, kwargs)
        views = self._complex
        if views is not None:
            leaves = views.given(leaves)
        device = self.device
        entered = device.enter()
        try:
            results = self._run(leaves)
        finally:
            if entered:
                device.leave()
        return self._arranged(results if views is None else views.returned(results))

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
        is_usual = are_usual(addresses)
        if not is_usual:
            check_memory(self.signature, leaves, addresses, checked.input_bytes)
        if self._changed:
            check_no_aliases(self.signature, self._changed, addresses, checked.input_bytes)
        if self._has_state:
            state = self._weights.state()
            check_not_state(self.signature, state, addresses, checked.input_bytes)
        capture = self.device.capture(stream)
        if self._has_assertions and not capture and self._assertions.is_any_set:
            self._held.synchronize()
        recording = (capture, stream, checked.key) if capture else None
        arena = self._pool.take(sys._getframe(), stream, recording)
        failed = None
        try:
            results = self._issue(arena, checked, addresses, caller, stream, is_usual)
            if self._has_assertions and (self._is_waited_for or caller.name == "numpy"):
                failed = self._assertions.failure(arena.flags[self._key])
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
        is_usual: bool,
    ) -> list[Any]:
        prepared = arena.plan(checked.key) or self._prepare(arena, checked)
        late = prepared.late
        if late is None:
            specs: Sequence[Any] = prepared.outputs
            results, outputs = caller.empty(specs, stream)
        else:
            made = late.begin(Results(caller, arena, prepared.outputs, stream))
            specs, results, outputs = made.specs, made.values, made.addresses
        arena.begin(stream)
        used = inputs
        if not is_usual or checked.uploads:
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
        found = tuple(sizes.values())
        checked = CheckedCall(found, (*self._key, *found), uploads, input_bytes, copies)
        if len(self._checked) >= CHECKED_KEPT:
            self._checked.clear()
        self._checked[facts] = checked
        return checked

    def _prepare(self, arena: Arena[Prepared], checked: CheckedCall) -> Prepared:
        parts, sizes = self._held.parts, checked.sizes
        plan = self._program.plan(parts.arch, *sizes)
        check_plan(self.manifest, plan, sizes)
        if self._has_assertions and self._key not in arena.flags:
            arena.flags[self._key] = self._assertions.new_flags()
        flags = arena.flags.get(self._key)
        prepared = prepare(
            self.signature,
            plan,
            parts.kernels,
            self._named_here(self._weights.addresses()) | (flags.addresses if flags else {}),
            arena,
            parts.device,
            parts.calls,
            graphs=parts.options.graphs and arena.recording is None,
            watch=self._watch(plan, sizes),
            check=partial(self._assertions.raise_failed, flags) if flags else None,
            sizes={size.name: n for size, n in zip(self.signature.sizes, sizes, strict=True)},
            check_rest=partial(check_types, self.manifest),
        )
        arena.keep(checked.key, prepared)
        return prepared

    def _named_here(self, weights: dict[str, ValueT]) -> dict[str, ValueT]:
        """What the package knows of its weights, by this method's names."""
        names = self._program.names
        if names is None:
            return weights
        return {own: weights[name] for own, name in names.items() if name in weights}

    def _watch(self, plan: Plan, sizes: tuple[int, ...]) -> Watch | None:
        mode = self._held.parts.options.debug
        if mode is None:
            return None
        found = lengths_of(self.manifest, sizes, plan)
        return Watch(self.signature.name, self.device, mode, found)

    def _named(self, leaves: Sequence[Any], error: ArgumentError) -> AotpackError:
        """``error`` with the path of the argument that cannot be read."""
        signature = self.signature
        for path, tensor, leaf in zip(signature.paths, signature.inputs, leaves, strict=True):
            try:
                framework = self._frameworks.of(leaf)
                framework.seen((framework.read((leaf,), 0)[1]), (leaf,))
            except ArgumentError:
                hint = number_hint(tensor, leaf)
                return ArgumentError(f"calling {signature.name}: argument {path!r}: {error}{hint}")
        return error


_ELSEWHERE = "a loaded model stays on its device: load(device=...) loads it on another"
_OF_WEIGHTS = "manifest.weights has names, types and shapes; bind_weights(...) takes new values"
_TYPES = "a package has the types of its build: build with --dtype"
_MODES = "a package does what the model did in the build, in its mode: leave it out"
_OF_MODULES: Mapping[str, str] = {
    "forward": "call the model itself: model(...)",
    **dict.fromkeys(("eval", "train", "requires_grad_", "no_grad"), _MODES),
    **dict.fromkeys(("to", "cuda", "cpu"), _ELSEWHERE),
    **dict.fromkeys(("half", "float", "bfloat16", "double"), _TYPES),
    **dict.fromkeys(("state_dict", "parameters", "named_parameters", "buffers"), _OF_WEIGHTS),
    "load_state_dict": "bind_weights(state_dict) takes weights",
}
"""What a package has in place of what a torch.nn.Module has."""


class Model(Method, Package):
    """A packaged model on one device: its only method, and what it is made of."""

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)  # stubs are generic in arrays

    def __init__(self, held: LoadedMemory, program: Program) -> None:
        Package.__init__(self, held, program.manifest)
        Method.__init__(self, held, program)

    def __repr__(self) -> str:
        return f"<Model {self.signature.name} {self.signature.version} on {self.device.name}>"

    if not TYPE_CHECKING:  # type checkers know all names

        def __getattr__(self, name: str) -> Any:
            near = did_you_mean(name, dir(type(self)))
            told = f"; {_OF_MODULES[name]}" if name in _OF_MODULES else near
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{told}")

    @property
    def methods(self) -> Mapping[str, Method]:
        """The only method, which has no name."""
        return {"": self}


class Methods(Package):
    """A package with several methods, which are its attributes: ``model.decode(x)``."""

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(self, held: LoadedMemory, programs: Mapping[str, Program]) -> None:
        super().__init__(held, held.parts.manifest)
        self.methods: Mapping[str, Method] = {
            name: Method(held, program) for name, program in programs.items()
        }
        self.__dict__.update(self.methods)

    def __getattr__(self, name: str) -> Any:
        methods = self.__dict__.get("methods", ())
        near = did_you_mean(name, methods)
        has = "" if near or not methods else f"; its methods are {', '.join(methods)}"
        kind = type(self).__name__
        raise AttributeError(f"{kind!r} object has no attribute {name!r}{near}{has}")

    def __repr__(self) -> str:
        name = self.manifest.signature.name
        return f"<Model {name} with {', '.join(self.methods)} on {self.device.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: which method is meant is not said."""
        name = self.manifest.signature.name
        calls = " or ".join(f"model.{one}(...)" for one in self.methods)
        raise ArgumentError(f"calling {name}: it has several methods; call {calls}")

    @property
    def signature(self) -> Mapping[str, Signature]:
        """The signature of each method."""
        return {name: one.signature for name, one in self.methods.items()}

    @property
    def inputs(self) -> Mapping[str, tuple[TensorInfo, ...]]:
        """The inputs of each method."""
        return {name: one.inputs for name, one in self.methods.items()}

    @property
    def outputs(self) -> Mapping[str, tuple[TensorInfo, ...]]:
        """The outputs of each method."""
        return {name: one.outputs for name, one in self.methods.items()}

    @property
    def memory(self) -> int:
        """Peak device bytes at the largest sizes: all weights, and the largest intermediates."""
        return self._weights.total + self.manifest.peak_bytes
