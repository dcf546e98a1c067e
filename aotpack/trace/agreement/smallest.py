"""The model and its exported program must agree for sizes of 1 too, which torch.export leaves out.

It takes every dynamic size for 2 or more, so ``if tokens.shape[1] == 1`` is a plain False to it and
leaves no guard. Both run once more on the first elements of the example inputs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.stages import Signature
from aotpack.trace.agreement.attributes import Attributes
from aotpack.trace.agreement.exported import check_export
from aotpack.trace.eager import Call, in_program_order
from aotpack.trace.operators.admitted import ones, shown_ones
from aotpack.trace.operators.random import Example

_MOST_TRIED = 2**16  # values of a size that is part of another
_ADVICE = (
    "torch.export takes each dynamic size for 2 or more, and decides conditions on sizes with it. "
    "Give the dimension a range from 2 on, or change what the model does for a size of 1"
)


def check_smallest(call: Call) -> None:
    """Refuse a program that departs from the model where a dynamic size is 1.

    Sizes at which eager refuses the shortened inputs show nothing.
    """
    signature = call.signature
    tensors = [x for x in _leaves(call) if isinstance(x, torch.Tensor)]
    example = _sizes_of(signature, tensors)
    before = Attributes({"": call.module})
    try:
        for values in ones(signature.sizes, example):
            shorter = _shortened(call, values)
            if shorter is not None:
                _check(shorter, shown_ones(values, example))
    finally:
        before.restore()


def _check(call: Call, case: str) -> None:
    try:
        eager = call.run()
    except TraceError:
        return
    check_export(call, eager, f"where {case},", _ADVICE)


def _leaves(call: Call) -> list[Any]:
    return in_program_order(call.program, *call.example)


def _sizes_of(signature: Signature, tensors: Sequence[torch.Tensor]) -> dict[str, int]:
    """The sizes of the example by name, as far as one dimension tells them."""
    found: dict[str, int] = {}
    for spec, tensor in zip(signature.inputs, tensors, strict=True):
        for size, number in zip(spec.shape, tensor.shape, strict=False):
            names = [one for one in size.leaves() if isinstance(one, Var)]
            if len(names) == 1:
                found.setdefault(names[0].name, _solved(size, names[0], number))
    return found


def _solved(size: Int, unknown: Var, number: int) -> int:
    """The value for which a dimension has its size."""
    near = range(unknown.low, min(unknown.high, max(number, unknown.low) + _MOST_TRIED) + 1)
    tried = (number, *near)
    return next(int(v) for v in tried if size.evaluate({unknown.name: v}) == number)


def _shortened(call: Call, values: Mapping[str, int]) -> Call | None:
    """The call on the first elements of its inputs; None where these have too few."""
    specs = iter(call.signature.inputs)
    leaves: list[Any] = []
    for leaf in _leaves(call):
        if not isinstance(leaf, torch.Tensor):
            leaves.append(leaf)
            continue
        sizes = next(specs).shape[: leaf.dim()]
        if not {v.name for s in sizes for v in s.leaves() if isinstance(v, Var)} <= {*values}:
            return None
        shape = [int(size.evaluate(values)) for size in sizes]
        if any(not 0 <= short <= long for short, long in zip(shape, leaf.shape, strict=True)):
            return None
        leaves.append(leaf[tuple(slice(short) for short in shape)] if shape else leaf)
    return Call(call.module, call.program, _example(call, leaves), call.signature)


def _example(call: Call, leaves: Sequence[Any]) -> Example:
    """The leaves in the order of the program's placeholders as arguments."""
    given: Example = pytree.tree_unflatten(list(leaves), call.program.call_spec.in_spec)
    return given
