"""Arguments and results of operator calls, free of torch: tensor names, sizes, constants, specs."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from aotpack.errors import UnsupportedError, a_type
from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.stages import Arg, Ref, TensorSpec
from aotpack.trace.complex_pairs import REALS
from aotpack.trace.diagnostics.conditions import with_numbers
from aotpack.trace.sizes import Sizes
from aotpack.trace.weights import dtype_of

_PLACEMENT_TYPES = (torch.device, torch.layout, torch.memory_format)


class ArgumentReader:
    """Maps nodes to names; ``refs`` are the inputs, the weights and the nodes read so far."""

    def __init__(self, sizes: Sizes, refs: Mapping[fx.Node, Ref]) -> None:
        self._sizes = sizes
        self._refs = dict(refs)
        self._names = {ref.name for ref in refs.values()}

    def ref(self, node: fx.Node) -> Ref:
        """The tensor that a node became."""
        return self._refs[node]

    def unused(self, name: str) -> str:
        """The name, with underscores added if a tensor has it."""
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _results(self, name: str, value: Any) -> tuple[TensorSpec, ...]:
        values = value if isinstance(value, (tuple, list)) else (value,)
        specs = []
        for index, result in enumerate(values):
            if isinstance(result, torch.SymInt):
                specs.append(number_spec(f"{name}.{index}" if index else name, result))
                continue
            if not isinstance(result, torch.Tensor):
                raise UnsupportedError(f"result {index} is {a_type(result)}, not a tensor")
            if result.layout is not torch.strided:
                raise UnsupportedError(
                    f"a result has the layout {result.layout}; dense ones are accepted"
                )
            shape = tuple(map(self._sizes.convert, result.shape))
            shape = (*shape, Int.of(2)) if result.dtype in REALS else shape
            dtype = dtype_of(REALS.get(result.dtype, result.dtype), "a result")
            specs.append(TensorSpec(f"{name}.{index}" if index else name, dtype, shape))
        return tuple(specs)

    def _arg(self, value: Any) -> Arg:
        if isinstance(value, fx.Node):
            return self._node_arg(value)
        if isinstance(value, torch.SymInt):
            return self._sizes.argument(value)
        if isinstance(value, (bool, int, float, str)) or value is None:
            return value
        if isinstance(value, (tuple, list)):
            return tuple(map(self._arg, value))
        if isinstance(value, torch.dtype):
            return dtype_of(value, "an argument")
        if isinstance(value, _PLACEMENT_TYPES):
            return None
        hint = "; write torch.tensor(...) of it" if isinstance(value, complex) else ""
        raise UnsupportedError(f"an argument that is {a_type(value)} ({value}){hint}")

    def _node_arg(self, node: fx.Node) -> Arg:
        value = node.meta.get("val")
        if node in self._refs:
            return self._refs[node]
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            kind = "data" if with_numbers(str(value)) != str(value) else "a size"
            raise UnsupportedError(
                f"an argument is a number that is computed from {kind} ({value})"
            )
        return self._arg(value)


def number_spec(name: str, value: Any) -> TensorSpec:
    """A number as a tensor without dimensions."""
    if isinstance(value, (bool, torch.SymBool)):
        return TensorSpec(name, DType.BOOL, ())
    is_float = isinstance(value, (float, torch.SymFloat))
    return TensorSpec(name, DType.FLOAT64 if is_float else DType.INT64, ())


def is_number(node: fx.Node) -> bool:
    """True for a node whose value is a number of the host, not a tensor."""
    numbers = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool, str)
    return isinstance(node.meta.get("val"), numbers)
