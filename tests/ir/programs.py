"""Small programs and values the IR tests share."""

from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Pointwise
from aotpack.ir.origin import Origin
from aotpack.ir.program import Buffer, Operation, Program, targets
from aotpack.ir.symbolic.integers import Axis, Int, Number, Var
from aotpack.ir.values import Apply, Const, IndexValue, Load, Value

F32, F64, BF16, I64, I32, BOOL = (
    DType.FLOAT32,
    DType.FLOAT64,
    DType.BFLOAT16,
    DType.INT64,
    DType.INT32,
    DType.BOOL,
)
S = Var("s", 1, 128)
ROW = Axis("i", Int.of(S))
J = Axis("j", Int.of(8))
K = Axis("k", Int.of(4))


NOWHERE = Origin()


def buffer(name: str, dtype: DType, *shape: Number) -> Buffer:
    return Buffer(name, dtype, tuple(map(Int.of, shape)))


def load(name: str, *index: object, dtype: DType = F32) -> Load:
    return Load(name, tuple(map(Int.of, index)), dtype)  # type: ignore[arg-type]


def apply(op: str, *args: Value, dtype: DType | None = None) -> Apply:
    """An operator; the type of its last operand unless said otherwise."""
    return Apply(op, args, dtype or args[-1].dtype)


def number(value: bool | int | float, dtype: DType = F32) -> Const:
    return Const(value, dtype)


def index(integer: Number, dtype: DType = I64) -> IndexValue:
    return IndexValue(Int.of(integer), dtype)


def over(target: str, axes: tuple[Axis, ...], value: Value, origin: Origin = NOWHERE) -> Pointwise:
    """A pointwise operation that writes each element at its own axes."""
    return Pointwise(target, axes, value, tuple(map(Int.of, axes)), origin)


def program(buffers: list[Buffer], operations: list[Operation], *, inputs: str) -> Program:
    """``inputs`` names the given buffers; what the last operation writes is returned."""
    names = tuple(inputs.split())
    declared = {each.name: each for each in buffers}
    return Program((S,), declared, names, (), tuple(operations), targets(operations[-1]))
