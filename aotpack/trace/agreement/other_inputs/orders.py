"""The model on row-major inputs, where the example's are in another memory order.

A call copies a row-major argument into the example's order. So the model may ask for the order of
its arguments (``x.is_contiguous()``), or write to what only one of them gives without a copy
(``x.reshape(-1)``), where its results are the same.
"""

from dataclasses import replace

import torch
from torch.utils import _pytree as pytree

from aotpack.trace.agreement.other_inputs.runs import Comparison, Run
from aotpack.trace.eager import Call
from aotpack.trace.operators.random.seeds import Example

_ADVICE = (
    "A package copies row-major arguments into the order of the example. Accepted is a model whose "
    "results do not follow the order of its arguments in memory: look for is_contiguous(), "
    "stride(), as_strided and writes to reshape, or give row-major examples"
)


def check_row_major(call: Call, compare: Comparison) -> None:
    """Refuse a program that departs from the model on the same numbers in row-major memory.

    ``compare`` takes a call, its results and where it is, to compare further programs. Inputs that
    the model changes have one order in calls.
    """
    ordered = {one.name for one in call.signature.inputs if one.order}
    if not ordered - {*call.signature.updates}:
        return

    def row_major(x: torch.Tensor) -> torch.Tensor:
        return x.contiguous()

    example: Example = pytree.tree_map_only(torch.Tensor, row_major, call.example)
    run = Run("on the example inputs in row-major memory,", _ADVICE, compare)
    run.check(replace(call, example=example), lambda error: False)
