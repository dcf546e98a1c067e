"""Readable kernel names, from the operators inside."""

from collections.abc import Iterable

from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Attention, Matmul, Pointwise, Reduction, Scatter
from aotpack.ir.program import Operation

MAX_LENGTH = 56
SKIPPED = frozenset(
    "view reshape permute transpose t unsqueeze squeeze expand slice select to clone contiguous "
    "dropout alias detach arange full ones zeros new_ones flatten split chunk unbind "
    "_to_copy expand_as view_as reshape_as unflatten ravel movedim moveaxis swapaxes swapdims "
    "narrow tensor_split broadcast_to numpy_T mT adjoint resolve_conj resolve_neg".split()
)
FALLBACKS = (
    (Matmul, "matmul"),
    (Attention, "attention"),
    (Reduction, "reduce"),
    (Scatter, "scatter"),
)
SHORT = {"scaled_dot_product_attention": "attention", "_softmax": "softmax"}


def kernel_name(members: Iterable[Member]) -> str:
    """Operators in order, repeats dropped: ``linear_gelu``, ``add_layer_norm``."""
    words: list[str] = []
    operations = [member.operation for member in members]
    for operation in operations:
        own = operation.origin.ops
        for op in own if isinstance(operation, Pointwise) else own[-1:]:
            word = _word(op)
            if word not in SKIPPED and (not words or words[-1] != word):
                words.append(word)
    name = "_".join(dict.fromkeys(words))[:MAX_LENGTH].strip("_")
    return name or _fallback(operations)


def _word(op: str) -> str:
    """``aten.add.Tensor`` -> ``add``."""
    parts = op.split(".")
    word = parts[1] if len(parts) > 1 else op
    return SHORT.get(word, word).strip("_")


def _fallback(operations: list[Operation]) -> str:
    for kind, name in FALLBACKS:
        if any(isinstance(operation, kind) for operation in operations):
            return name
    return "copy"
