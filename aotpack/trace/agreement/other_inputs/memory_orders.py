"""The model on row-major inputs, where the example's are in another memory order.

A call copies a row-major argument into the example's order. So the model may ask for the order of
its arguments (``x.is_contiguous()``), or write to what only one of them gives without a copy
(``x.reshape(-1)``), where its results are the same.
"""

from typing import Any

import torch

from aotpack.trace.agreement.other_inputs.resized import leaves, with_leaves
from aotpack.trace.agreement.other_inputs.trials import Comparison, Trial
from aotpack.trace.eager import Call

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
    inputs, updates = iter(call.signature.inputs), call.signature.updates
    changed, is_other = list[Any](), False
    for leaf in leaves(call):
        if isinstance(leaf, torch.Tensor):
            spec = next(inputs)
            if spec.order and spec.name not in updates:
                leaf, is_other = leaf.contiguous(), True
        changed.append(leaf)
    if is_other:
        trial = Trial("on the example inputs in row-major memory,", _ADVICE, compare)
        trial.check(with_leaves(call, changed), lambda error: False)
