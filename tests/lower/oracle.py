"""Runs one torch operator twice: eagerly, and lowered to a Program and evaluated."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.verify.program import verify
from aotpack.lower import lower
from aotpack.stages import (
    Arg,
    Golden,
    Graph,
    GraphNode,
    Ref,
    Signature,
    Source,
    TensorSpec,
    Traced,
    Weight,
)
from aotpack.trees import Tree

NO_GOLDEN = Golden((), (), ())
_RANDOM = torch.Generator().manual_seed(0)


def floats(*shape: int) -> torch.Tensor:
    """Normally distributed float32 numbers."""
    return torch.randn(shape, generator=_RANDOM)


def positives(*shape: int) -> torch.Tensor:
    """float32 numbers in [0.1, 1.1)."""
    return torch.rand(shape, generator=_RANDOM) + 0.1


def ints(*shape: int) -> torch.Tensor:
    """int64 numbers in [-5, 5]."""
    return torch.randint(-5, 6, shape, generator=_RANDOM)


def ids(high: int, *shape: int) -> torch.Tensor:
    """int64 numbers in [0, high)."""
    return torch.randint(0, high, shape, generator=_RANDOM)


@dataclass(frozen=True)
class Case:
    """An operator with arguments; its name in reports shows shapes instead of numbers."""

    op: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __str__(self) -> str:
        shown = [_shown(arg) for arg in self.args]
        shown += [f"{key}={_shown(value)}" for key, value in self.kwargs.items()]
        return f"{self.op.removeprefix('aten.')}({','.join(shown)})"

    def check(self) -> None:
        """Assert that the lowered program yields what eager yields."""
        check(self.op, *self.args, **self.kwargs)


def case(op: str, *args: Any, **kwargs: Any) -> Case:
    """A row of a test table; ``op`` is without its namespace "aten"."""
    return Case(f"aten.{op}", args, kwargs)


def _shown(arg: Any) -> str:
    if isinstance(arg, torch.Tensor):
        return f"{dtype_of(arg.dtype)}{list(arg.shape)}".replace(" ", "")
    if isinstance(arg, (list, tuple)):
        return f"[{','.join(map(_shown, arg))}]"
    return str(arg)


def dtype_of(dtype: torch.dtype) -> DType:
    """The same element type in our terms."""
    return DType(str(dtype).removeprefix("torch."))


def spec_of(name: str, tensor: torch.Tensor) -> TensorSpec:
    """A tensor's type and shape."""
    return TensorSpec(name, dtype_of(tensor.dtype), tuple(map(Int.of, tensor.shape)))


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The tensor as the evaluator takes it: bfloat16 as float32."""
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()


def call(op: str, *args: Any, **kwargs: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """(what the lowered program yields, what eager yields) for one operator call."""
    namespace, name, overload = op.split(".")
    eager = getattr(getattr(getattr(torch.ops, namespace), name), overload)(*args, **kwargs)
    results = list(eager) if isinstance(eager, (tuple, list)) else [eager]
    tensors: list[torch.Tensor] = []
    graph_args = tuple(_argument(arg, tensors) for arg in args)
    graph_kwargs = tuple((key, _argument(arg, tensors)) for key, arg in kwargs.items())
    specs = tuple(spec_of(f"{name}.{k}", result) for k, result in enumerate(results))
    node = GraphNode("node", op, graph_args, graph_kwargs, specs, None)
    inputs = tuple(spec_of(f"x{k}", tensor) for k, tensor in enumerate(tensors))
    program = lower(
        traced([node], inputs, tuple(Ref("node", k) for k in range(len(specs))))
    ).program
    verify(program)
    values = {f"x{k}": array_of(tensor) for k, tensor in enumerate(tensors)}
    found = evaluate(program, values, {}, {})
    ours = [torch.from_numpy(np.array(found[name])) for name in program.outputs]
    return ours, results


def _argument(arg: Any, tensors: list[torch.Tensor]) -> Arg:
    if isinstance(arg, torch.Tensor):
        tensors.append(arg)
        return Ref(f"x{len(tensors) - 1}")
    if isinstance(arg, torch.dtype):
        return dtype_of(arg)
    if isinstance(arg, (list, tuple)):
        return tuple(_argument(part, tensors) for part in arg)
    return arg


def traced(
    nodes: list[GraphNode],
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[Ref, ...],
    sizes: tuple[Var, ...] = (),
    weights: tuple[Weight, ...] = (),
) -> Traced:
    """A hand-made product of the trace stage; output types are looked up in the graph."""
    known = {Ref(spec.name): spec for spec in inputs}
    known |= {Ref(n.name, k): spec for n in nodes for k, spec in enumerate(n.results)}
    for weight in weights:
        shape = tuple(map(Int.of, weight.shape))
        known[Ref(weight.name)] = TensorSpec(weight.name, weight.dtype, shape)
    specs = tuple(
        TensorSpec(f"output{k}", known[ref].dtype, known[ref].shape)
        for k, ref in enumerate(outputs)
    )
    leaf = Tree("leaf")
    signature = Signature("test", "1", sizes, inputs, specs, leaf, leaf, leaf)
    return Traced(Graph(signature, weights, tuple(nodes), outputs), NO_GOLDEN)


def node(
    name: str,
    op: str,
    args: tuple[Arg, ...],
    result: TensorSpec,
    source: Source | None = None,
    **kwargs: Arg,
) -> GraphNode:
    """A call with one result."""
    return GraphNode(name, op, args, tuple(kwargs.items()), (result,), source)


def check(op: str, *args: Any, **kwargs: Any) -> None:
    """Assert that the lowered program yields what eager yields."""
    for ours, eager in zip(*call(op, *args, **kwargs), strict=True):
        assert tuple(ours.shape) == tuple(eager.shape)
        if eager.dtype is not torch.bfloat16:
            assert ours.dtype is eager.dtype
        coarse = eager.dtype in (torch.bfloat16, torch.float16)
        rtol, atol = (1.6e-2, 4e-3) if coarse else (2e-5, 2e-5)
        torch.testing.assert_close(
            ours.double(), eager.double(), rtol=rtol, atol=atol, equal_nan=True
        )


def check_traced(traced_model: Traced, module: torch.nn.Module, *calls: tuple[Any, ...]) -> Program:
    """Assert that the model's program yields what eager yields, for each set of inputs."""
    lowered = lower(traced_model)
    verify(lowered.program)
    weights = {weight.name: _weight_array(weight) for weight in lowered.weights}
    for call_args in calls:
        specs = lowered.signature.inputs
        values = {s.name: array_of(t) for s, t in zip(specs, call_args, strict=True)}
        found = evaluate(lowered.program, values, weights, sizes_of(specs, call_args))
        with torch.no_grad():
            eager = module(*call_args)
        results = eager if isinstance(eager, tuple) else (eager,)
        for name, result in zip(lowered.program.outputs, results, strict=True):
            ours = torch.from_numpy(np.array(found[name]))
            torch.testing.assert_close(ours, result, rtol=2e-5, atol=2e-5, equal_nan=True)
    return lowered.program


def sizes_of(specs: tuple[TensorSpec, ...], tensors: tuple[torch.Tensor, ...]) -> Mapping[str, int]:
    """The model's sizes, from the inputs that have them as a dimension."""
    sizes = {}
    for spec, tensor in zip(specs, tensors, strict=True):
        for size, number in zip(spec.shape, tensor.shape, strict=True):
            if isinstance(size.atom, Var):
                sizes[size.atom.name] = number
    return sizes


def _weight_array(weight: Weight) -> np.ndarray:
    return np.frombuffer(weight.data, dtype=weight.dtype.facts.numpy).reshape(weight.shape)
