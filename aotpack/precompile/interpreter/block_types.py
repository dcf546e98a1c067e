"""Cached block types for Triton's interpreter, which makes and compares them at every step.

Interpreted programs have few types and many steps: types would take most of the time. Each type is
made once here, and tensors share the properties of theirs.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import triton.language as tl
from triton.language.semantic import TritonSemantic

_own_broadcast = TritonSemantic.broadcast_impl_value


def _with_element(kind: Any, element: Any) -> Any:
    """See ``block_type.with_element_ty``."""
    shape = tuple(kind.shape.values)
    return tl.block_type(element, list(shape)) if element.is_ptr() else _block_type(element, shape)


@cache
def _block_type(element: Any, shape: tuple[int, ...]) -> Any:
    return tl.block_type(element, list(shape))


def _to_ir(kind: Any, _: Any) -> Any:
    """The interpreter represents a type by the type."""
    return kind


def _is_equal(kind: Any, other: Any) -> bool:
    """See ``block_type.__eq__``."""
    if kind is other:
        return True
    is_block = isinstance(other, tl.block_type)
    return is_block and kind.element_ty == other.element_ty and has_shape_of(kind, other)


def has_shape_of(kind: Any, other: Any) -> bool:
    """True for block types of one shape."""
    same: bool = kind.shape.values == other.shape.values
    return same


def _tensor(tensor: Any, handle: Any, kind: Any) -> None:
    """See ``tensor.__init__``."""
    tensor.handle, tensor.type, tensor.dtype = handle, kind, kind.scalar
    sizes = tuple(kind.shape.values) if kind.is_block() else ()
    tensor.shape, tensor.numel = _shape(sizes)


@cache
def _shape(sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """The shape as a tensor has it, and its number of elements."""
    number = 1
    for size in sizes:
        number *= size
    return tl.tuple([tl.constexpr(size) for size in sizes]), tl.constexpr(number)


def _broadcast(semantic: Any, a: Any, b: Any) -> Any:
    """See ``TritonSemantic.broadcast_impl_value``."""
    blocks = a.type.is_block(), b.type.is_block()
    if not any(blocks) or (all(blocks) and has_shape_of(a.type, b.type)):
        return a, b
    return _own_broadcast(semantic, a, b)


def replacements() -> tuple[tuple[Any, str, Callable[..., Any]], ...]:
    """The replacements while a kernel is interpreted: (class, name, function)."""
    return (
        (tl.block_type, "with_element_ty", _with_element),
        (tl.block_type, "to_ir", _to_ir),
        (tl.block_type, "__eq__", _is_equal),
        (tl.tensor, "__init__", _tensor),
        (TritonSemantic, "broadcast_impl_value", _broadcast),
    )
