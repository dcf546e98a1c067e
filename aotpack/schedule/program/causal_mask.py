"""Recognise attention masks: ``j <= i`` becomes the causal form, an all-true mask becomes none."""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Attention
from aotpack.ir.program import Operation, Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply, Const, IndexValue, Value


def recognise_causal_masks(program: Program) -> Program:
    """Replace an attention mask that is causal or all true by the causal form or by none.

    The same object if there is no such mask.
    """
    operations = tuple(map(_simplify, program.operations))
    if all(a is b for a, b in zip(operations, program.operations, strict=True)):
        return program
    return replace(program, operations=operations)


def _simplify(operation: Operation) -> Operation:
    if not isinstance(operation, Attention) or operation.mask is None:
        return operation
    mask = operation.mask
    if mask is _true():
        return replace(operation, mask=None)
    if _is_causal(mask, operation):
        return replace(operation, mask=None, causal=True)
    return operation


def _true() -> Value:
    return Const(True, DType.BOOL)


def _is_causal(mask: Value, operation: Attention) -> bool:
    """``j <= i`` in any of its four spellings, with equally long queries and keys."""
    if not isinstance(mask, Apply) or len(mask.args) != 2:
        return False
    a, b = mask.args
    if not isinstance(a, IndexValue) or not isinstance(b, IndexValue):
        return False
    i, j = Int.of(operation.i), Int.of(operation.j)
    match mask.op:
        case "le":
            slack = b.index - a.index
        case "ge":
            slack = a.index - b.index
        case "lt":
            slack = b.index - a.index - 1
        case "gt":
            slack = a.index - b.index - 1
        case _:
            return False
    return slack is i - j
