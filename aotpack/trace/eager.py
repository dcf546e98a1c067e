"""Runs of the model on the example inputs: as eager runs it, and as torch.export recorded it.

Both leave the weights as they are. The fused encoder kernels stay off, as they are in export.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from aotpack.errors import TraceError
from aotpack.stages import Signature
from aotpack.trace.capture import quiet_inference
from aotpack.trace.changes import kept, named_tensors
from aotpack.trace.complex_pairs import real_tensor
from aotpack.trace.diagnostics.complaint import condensed_of_run
from aotpack.trace.graph import is_returned
from aotpack.trace.host.copies import PLAIN
from aotpack.trace.host.devices import OnHost
from aotpack.trace.host.layers import failed_layer
from aotpack.trace.operators.control_flow.control import CONTROL
from aotpack.trace.operators.modes import WithoutStreams
from aotpack.trace.operators.random.seeds import Example
from aotpack.trace.source import users_source_of
from aotpack.trace.weights import weight_tensor

Tensors = list[torch.Tensor]
BetweenCalls: TypeAlias = Callable[[], AbstractContextManager[None]]
Around: TypeAlias = Callable[[Mapping[str, torch.Tensor]], AbstractContextManager[None]]


def in_program_order(
    program: ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The leaves of the inputs in the order of the program's placeholders."""
    numbered = pytree.tree_unflatten(
        list(range(program.call_spec.in_spec.num_leaves)), program.call_spec.in_spec
    )
    leaves: list[Any] = pytree.tree_leaves((args, {key: kwargs[key] for key in numbered[1]}))
    return leaves


def run_eagerly(
    module: nn.Module, program: ExportedProgram, example: Example, signature: Signature
) -> Tensors:
    """The tensors that the module returns, then the new values of those that it changes."""
    return run_in_turn([Call(module, program, example, signature)], nullcontext)[0]


def run_in_turn(
    calls: Sequence["Call"], between: BetweenCalls, around: Around = lambda _: nullcontext()
) -> list[Tensors]:
    """The same of each call, in the state that those before left; ``between`` is entered after one.

    Python values stay as calls leave them, and inputs are each call's own. ``around`` is entered
    for the first, with its inputs and weights by name.
    """
    call, *others = calls
    args, kwargs = _copied(call.example, keep_same=not call.changes_inputs)
    weights = named_tensors(call.module)
    with _unchanged(call.program, args, kwargs, call.signature, weights) as changed:
        given = _given(call.program, args, kwargs, call.signature)
        with compiled_anew(call.program), around({**weights, **given}):
            result = _called(call.module, args, kwargs, call.signature.name)
        returned = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        _check_real(returned, call.signature.name)
        results = [real_tensor(tensor.clone()) for tensor in (*returned, *changed)]
        if not others:
            return [results]
        with between():
            return [results, *run_in_turn(others, between)]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a method: its module, what was exported, and inputs."""

    module: nn.Module
    program: ExportedProgram
    example: Example
    signature: Signature

    def run(self, around: Around = lambda _: nullcontext()) -> Tensors:
        """What it returns, then the new values of what it changes."""
        return run_in_turn([self], nullcontext, around)[0]

    @property
    def changes_inputs(self) -> bool:
        """True if it writes to an argument; packages refuse it where another one shares memory."""
        return not {spec.name for spec in self.signature.inputs}.isdisjoint(self.signature.updates)

    def turned(self) -> "Call":
        """On the same floating-point elements in the opposite order: what may be, still is."""

        def turn(x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or not x.is_floating_point():
                return x
            return x.flatten().flip(0).reshape(x.shape)

        turned: Example = pytree.tree_map(turn, self.example)
        return replace(self, example=turned)


@contextmanager
def compiled_anew(program: ExportedProgram) -> Iterator[None]:
    """Undo what a call of control flow under a mode leaves: later calls of it fail in torch.

    Eager compiles ``torch.cond`` and its kin by dynamo, which under a mode skips their functions
    for good.
    """
    try:
        yield
    finally:
        if is_in_torch_dispatch_mode() and any(n.target in CONTROL for n in program.graph.nodes):
            torch._dynamo.reset()


def _called(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    try:
        return module(*args, **kwargs)
    except (Exception, SystemExit) as error:
        raise TraceError(
            f"running {name} eagerly on the example inputs: {condensed_of_run(error)}"
            f"{failed_layer(module, error)}"
        ) from error


def _check_real(returned: Sequence[torch.Tensor], name: str) -> None:
    """Refuse results that the export left: a cache that no build sees has its tensors."""
    if any(isinstance(tensor, FakeTensor) for tensor in returned):
        raise TraceError(
            f"running {name} eagerly after its export: a result has no values, as the model takes "
            "tensors that it made while it was exported from a cache outside of itself; keep them "
            "in attributes of the model, or in functools.lru_cache"
        )


def run_exported(
    program: ExportedProgram,
    example: Example,
    signature: Signature,
    interpreter: fx.Interpreter | None = None,
    where: str = "on the example inputs",
) -> Tensors:
    """The same of the program as export gave it, which changes tensors in place.

    ``where`` is a word of the refusal.
    """
    args, kwargs = _copied(example)
    user = iter(in_program_order(program, args, kwargs))
    flat = [
        next(user)
        if spec.kind is InputKind.USER_INPUT
        else weight_tensor(program, spec.target or "")
        for spec in program.graph_signature.input_specs
    ]
    weights = {name: weight_tensor(program, name) for name in _weights(signature)}
    with _unchanged(program, args, kwargs, signature, weights) as changed:
        runner = interpreter or _Named(program.graph_module, signature.name, where)
        pairs = zip(runner.run(*flat), program.graph_signature.output_specs, strict=True)
        returned = [value for value, spec in pairs if is_returned(spec)]
        return [real_tensor(tensor.clone()) for tensor in (*returned, *changed)]


class _Named(fx.Interpreter):
    """An error names the operator and the user's line."""

    def __init__(self, module: fx.GraphModule, name: str, where: str) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self.name, self.where = name, where

    def run_node(self, n: fx.Node) -> Any:
        try:
            return super().run_node(n)
        except Exception as error:
            place = users_source_of(n)
            raise TraceError(
                f"running {self.name} as torch.export recorded it {self.where}: "
                f"{n.target} failed: {type(error).__name__}: {error}"
                + (f"\n  at {place}" if place else "")
            ) from error


def _copied(example: Example, *, keep_same: bool = False) -> Example:
    """Copies of tensors; with ``keep_same`` one that is given twice is the same one for the model.

    A model may ask for that, as attention does: ``query is key``.
    """
    made = dict[int, torch.Tensor]()

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if keep_same and id(tensor) in made:
            return made[id(tensor)]
        made[id(tensor)] = found = _copy(tensor)
        return found

    copies: Example = pytree.tree_map_only(torch.Tensor, copy, example)
    return copies


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with its attributes, of its class, which may have functions of its own."""
    with torch._C.DisableTorchFunctionSubclass():
        found = tensor.clone()
        if type(found) is not type(tensor) and type(tensor) not in PLAIN:
            found = found.as_subclass(type(tensor))
        vars(found).update(vars(tensor))
        return found


def _weights(signature: Signature) -> list[str]:
    """The names of the weights that the model changes."""
    inputs = {spec.name for spec in signature.inputs}
    return [name for name in signature.updates if name not in inputs]


@contextmanager
def _unchanged(
    program: ExportedProgram,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    signature: Signature,
    weights: Mapping[str, torch.Tensor],
) -> Iterator[Sequence[torch.Tensor]]:
    """Inside the block the model may change tensors; yields those, by ``signature.updates``."""
    given = _given(program, args, kwargs, signature)
    changed = [{**weights, **given}[name] for name in signature.updates]
    with quiet_inference(), WithoutStreams(), OnHost(), kept(changed):
        yield changed


def _given(
    program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], signature: Signature
) -> dict[str, torch.Tensor]:
    """The inputs by name."""
    leaves = in_program_order(program, args, kwargs)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return dict(zip((spec.name for spec in signature.inputs), tensors, strict=True))
