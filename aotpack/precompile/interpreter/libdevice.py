"""libdevice for Triton's interpreter, which has none: the functions of kernels, on numpy blocks."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime.interpreter import TensorHandle, interpreter_semantic

Block = NDArray[Any]


def _lgamma(x: float) -> float:
    """Infinite at its poles, where Python raises."""
    is_infinite = math.isinf(x) or (x <= 0 and x == math.floor(x))
    return math.inf if is_infinite else math.lgamma(x)


# Results of the argument's type. Python's math stands in where numpy lacks a function.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "div_rn": np.divide,
    "erf": np.frompyfunc(math.erf, 1, 1),
    "erfc": np.frompyfunc(math.erfc, 1, 1),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "fmod": np.fmod,
    "lgamma": np.frompyfunc(_lgamma, 1, 1),
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "pow": np.power,
    "rint": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
_PREDICATES: dict[str, Callable[..., Any]] = {
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "signbit": np.signbit,
}


class HostLibdevice:
    """Replaces ``triton.language.extra.libdevice`` in a kernel's globals."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _FUNCTIONS and name not in _PREDICATES:
            known = ", ".join(sorted({*_FUNCTIONS, *_PREDICATES}))
            raise NotImplementedError(
                f"libdevice.{name} is not known to the interpreter; it knows {known}"
            )
        return lambda *args: _apply(name, args)


def _apply(name: str, args: tuple[Any, ...]) -> Any:
    tensors = [interpreter_semantic.to_tensor(arg) for arg in args]
    blocks = [tensor.handle.data for tensor in tensors]
    function = _PREDICATES.get(name) or _FUNCTIONS[name]
    result = np.asarray(function(*blocks))
    if not any(tensor.type.is_block() for tensor in tensors):
        result = result.reshape(())  # the interpreter keeps some scalars as blocks of one
    if name in _PREDICATES:
        return make_tensor(result, tl.int1)
    return make_tensor(result.astype(blocks[0].dtype), tensors[0].dtype)


def make_tensor(block: Block, dtype: Any) -> Any:
    """An interpreter tensor of a numpy block; blocks without dimensions are scalars."""
    block = np.asarray(block)
    kind = tl.block_type(dtype, list(block.shape)) if block.shape else dtype
    return tl.tensor(TensorHandle(block, dtype), kind)
