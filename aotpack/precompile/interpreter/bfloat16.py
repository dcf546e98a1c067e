"""bfloat16 for Triton's interpreter, whose casts truncate and whose dot multiplies raw bits.

The interpreter keeps bfloat16 blocks as uint16; here they are widened to float32 and rounded back,
to nearest even, as a GPU does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from aotpack.precompile.interpreter.libdevice import Block

_own_cast = InterpreterBuilder.cast_impl
_own_dot = InterpreterBuilder.create_dot


def widen(bits: Block) -> Block:
    """float32 values of bfloat16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(values: Block) -> Block:
    """bfloat16 bits of float32 values, to nearest even; every NaN becomes the quiet one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
    return np.where(np.isnan(values), np.uint32(0x7FC0), nearest).astype(np.uint16)


def cast(builder: Any, source: Any, target: Any, *_: Any) -> Any:
    """A numeric cast; the interpreter's own one for types other than bfloat16."""
    before, after = source.dtype.scalar, target.scalar
    if before == tl.bfloat16:
        source = TensorHandle(widen(source.data), tl.float32)
    if after != tl.bfloat16:
        return _own_cast(builder, source, target)
    if source.dtype != tl.float32:
        source = TensorHandle(source.data.astype(np.float32), tl.float32)
    return TensorHandle(rounded(source.data), tl.bfloat16)


def dot(builder: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
    """A matrix product, with bfloat16 factors widened."""
    factors = [TensorHandle(widen(x.data), tl.float32) if x.dtype.is_bf16() else x for x in (a, b)]
    return _own_dot(builder, *factors, d, *options)


def replacements() -> tuple[tuple[Any, str, Callable[..., Any]], ...]:
    """The replacements while a kernel is interpreted: (class, name, function)."""
    return (
        (InterpreterBuilder, "cast_impl", cast),
        (InterpreterBuilder, "create_fp_to_fp", cast),
        (InterpreterBuilder, "create_dot", dot),
    )
