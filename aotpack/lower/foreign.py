"""Launches of the user's own Triton kernels: their tensors are whole buffers.

Rows S:H1, H2, H15.
"""

from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Foreign, TritonKernel
from aotpack.ir.integers import Int
from aotpack.lower.context import Context, is_empty
from aotpack.lower.values import constant
from aotpack.stages import Arg, Ref

_UNDEFINED = frozenset(
    f"aten.{name}"
    for name in (
        "empty.memory_format empty_like.default empty_strided.default empty_permuted.default "
        "new_empty.default new_empty_strided.default"
    ).split()
)


def lower_launch(c: Context, kernel: TritonKernel) -> None:
    """One call; what it changes begins as the argument was, or undefined if that was too."""
    node = c.node
    results = {position: c.result(output) for output, position in enumerate(node.changes)}
    changed = [node.args[position] for position in node.changes]
    if all(is_empty(c.shape(ref)) for ref in results.values()):
        for result in results.values():
            c.pointwise(result, lambda index: constant(0, DType.BOOL))
        return
    x, y, z = node.grid
    c.builder.append(
        Foreign(
            targets=tuple(c.builder.buffer(result).name for result in results.values()),
            bases=tuple(_base(c, arg) for arg in changed),
            kernel=kernel,
            arguments=tuple(
                _argument(c, results.get(position, arg)) for position, arg in enumerate(node.args)
            ),
            grid=(x, y, z),
            origin=c.origin,
        )
    )


def _base(c: Context, arg: Arg) -> str | None:
    assert isinstance(arg, Ref)
    producer = c.producer(arg)
    is_undefined = producer is not None and producer.op in _UNDEFINED
    return None if is_undefined else c.builder.buffer(arg).name


def _argument(c: Context, arg: Arg) -> str | Int:
    if isinstance(arg, Ref):
        return c.builder.buffer(arg).name
    assert isinstance(arg, Int)
    return arg
