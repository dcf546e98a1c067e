"""Foreign calls: the user's Triton kernels, and operators that torch runs."""

from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Fixed, Foreign, Passed, TorchOperator, TritonKernel
from aotpack.ir.symbolic.integers import Int
from aotpack.lower.context import Context, is_empty
from aotpack.lower.registry import CannotLower
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
    """One call; a changed tensor starts with the argument's contents, if they are defined."""
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
            targets=tuple(_passed(c, result) for result in results.values()),
            bases=tuple(_base(c, arg) for arg in changed),
            kernel=kernel,
            arguments=tuple(
                _argument(c, results.get(position, arg)) for position, arg in enumerate(node.args)
            ),
            grid=(x, y, z),
            origin=c.origin,
            others=node.others,
        )
    )


def _base(c: Context, arg: Arg) -> str | None:
    assert isinstance(arg, Ref)
    producer = c.producer(arg)
    is_undefined = producer is not None and producer.op in _UNDEFINED
    return None if is_undefined else _passed(c, arg)


def _argument(c: Context, arg: Arg) -> str | Int:
    if isinstance(arg, Ref):
        return _passed(c, arg)
    assert isinstance(arg, Int)
    return arg


def _passed(c: Context, ref: Ref) -> str:
    if c.dtype(ref).is_float8:
        raise CannotLower(f"{c.dtype(ref)} tensors cannot be handed to code that is not ours")
    return c.builder.buffer(ref).name


def call_torch(c: Context, reason: str) -> str | None:
    """Append the node as a call of torch with new results; returns the obstacle, if any."""
    node = c.node
    namespace, *rest = node.op.split(".")
    if node.kernel is not None or len(rest) != 2 or namespace in ("prims", "aotpack"):
        return reason
    if node.counts:
        return f"{reason}; torch cannot run it either, since its result's size depends on the data"
    passed: list[str | Int] = []
    args = tuple(_fixed(c, arg, passed) for arg in node.args)
    kwargs = tuple((name, _fixed(c, arg, passed)) for name, arg in node.kwargs)
    if not any(isinstance(name, str) for name in passed):
        return f"{reason}; torch cannot run it either, since no tensor says on which device"
    targets = tuple(_passed(c, c.result(n)) for n in range(len(node.results)))
    names = [f"arg{n}" for n in range(len(passed))] + [f"out{n}" for n in range(len(targets))]
    one = Int.of(1)
    c.builder.append(
        Foreign(
            targets=targets,
            bases=(None,) * len(targets),
            kernel=TorchOperator(node.op, args, kwargs, tuple(names), reason),
            arguments=(*passed, *targets),
            grid=(one, one, one),
            origin=c.origin,
        )
    )
    return None


def _fixed(c: Context, arg: Arg, passed: list[str | Int]) -> Fixed:
    """An argument with tensors and sizes replaced by their positions in ``passed``."""
    if isinstance(arg, tuple):
        return tuple(_fixed(c, part, passed) for part in arg)
    if isinstance(arg, Int) and arg.constant is not None:
        return arg.constant
    if isinstance(arg, (Ref, Int)):
        passed.append(_argument(c, arg))
        return Passed(len(passed) - 1)
    return arg
