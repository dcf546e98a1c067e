"""Control flow: branches and loops with programs inside, and arithmetic on carried numbers."""

from collections.abc import Mapping
from functools import partial

from aotpack.ir.dtypes import DType
from aotpack.ir.program import Branch, Loop, Program
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.calls import lower_calls
from aotpack.lower.context import Context, Index, Scalar, is_empty
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant, where
from aotpack.stages import Arg, Body, Ref


@lowering("higher_order.cond")
def cond(context: Context, predicate: Ref | Scalar) -> None:
    """A branch; only one side if the predicate is constant for all admitted sizes."""
    if isinstance(predicate, (bool, int)):
        body = context.node.bodies[0 if predicate else 1]
        for result, given in _body(context, body, _results(context)).items():
            context.builder.alias(result, given)
        return
    first, second = (
        context.builder.part(partial(_body, context, body, _results(context)))
        for body in context.node.bodies
    )
    asked = (
        _buffer(context, _truth(context, predicate)) if isinstance(predicate, Ref) else predicate
    )
    assert isinstance(asked, (str, Int))
    targets = tuple(_buffer(context, result) for result in _results(context))
    context.builder.append(Branch(targets, asked, (first, second), context.origin))


@lowering("higher_order.while_loop")
def while_loop(context: Context, carried: tuple[Arg, ...]) -> None:
    """A loop that evaluates its test before each iteration."""
    state = _results(context)
    test, body = context.node.bodies
    predicate = context.temporary("goes_on", DType.BOOL, ())

    def ask() -> Mapping[Ref, Ref]:
        (given,) = _body(context, test, (predicate,)).values()
        return {predicate: _truth(context, given)}

    targets = tuple(_buffer(context, ref) for ref in (*state, predicate))
    context.builder.append(
        Loop(
            targets,
            entry=_entry(context, state, carried),
            condition=_buffer(context, predicate),
            test=context.builder.part(ask),
            turn=None,
            body=context.builder.part(partial(_body, context, body, state)),
            origin=context.origin,
        )
    )


@lowering("higher_order.map_impl")
def map_over(context: Context, slices: tuple[Ref, ...]) -> None:
    """A loop over the first dimension of tensors; stacks the results of the iterations."""
    _over_slices(context, (), slices)


@lowering("higher_order.scan")
def scan(context: Context, carried: tuple[Arg, ...], slices: tuple[Ref, ...]) -> None:
    """The same, with state carried between iterations."""
    _over_slices(context, carried, slices)


def _over_slices(context: Context, carried: tuple[Arg, ...], slices: tuple[Ref, ...]) -> None:
    (body,) = context.node.bodies
    results = _results(context)
    state, stacked = results[: len(carried)], results[len(carried) :]
    turns = context.shape(slices[0])[0]
    turn = context.builder.iteration(f"{context.node.name}_turn", max(0, int(bounds(turns)[1]) - 1))

    def run() -> Mapping[Ref, Ref]:
        for spec, whole in zip(body.slices, slices, strict=True):
            context.pointwise(context.builder.declare(spec), partial(_at, context, whole, turn_at))
        given = _body(context, body, results)
        return {ref: given[ref] for ref in state} | {
            ref: _stacked(context, ref, given[ref], turn_at) for ref in stacked
        }

    turn_at = Int.of(turn)
    context.builder.append(
        Loop(
            tuple(_buffer(context, ref) for ref in results),
            entry=_entry(context, state, carried),
            condition=turns,
            test=None,
            turn=turn,
            body=context.builder.part(run, turn),
            origin=context.origin,
        )
    )


def _at(context: Context, whole: Ref, turn: Int, index: Index) -> Value:
    """An element of one iteration's slice of a tensor."""
    return context.load(whole, (turn, *index))


def _stacked(context: Context, whole: Ref, part: Ref, at: Int) -> Ref:
    """``whole`` with ``part`` as its element ``at`` of the first dimension."""
    shape = context.shape(whole)
    new = context.temporary("stacked", context.dtype(whole), shape)
    if is_empty(shape):
        context.pointwise(new, lambda index: context.load(whole, index))
        return new
    context.scatter(
        new,
        whole,
        "set",
        shape[1:],
        lambda index: (at, *index),
        lambda index: context.load(part, index),
    )
    return new


def _entry(context: Context, state: tuple[Ref, ...], carried: tuple[Arg, ...]) -> Program:
    """The program that initialises a loop's state."""
    pairs = list(zip(state, carried, strict=True))
    return context.builder.part(lambda: {ref: _tensor(context, first) for ref, first in pairs})


def _body(context: Context, body: Body, results: tuple[Ref, ...]) -> dict[Ref, Ref]:
    """Lower a body at the builder's position; returns the value of each result."""
    lower_calls(context.builder, body.nodes)
    given = [_tensor(context, output) for output in body.outputs]
    return dict(zip(results, given, strict=True))


def _results(context: Context) -> tuple[Ref, ...]:
    return tuple(context.result(number) for number in range(len(context.node.results)))


def _buffer(context: Context, ref: Ref) -> str:
    return context.builder.buffer(ref).name


def _tensor(context: Context, arg: Arg) -> Ref:
    """A number as a 0-d tensor; a tensor unchanged."""
    if isinstance(arg, Ref):
        return arg
    if not isinstance(arg, (bool, int, Int)):
        raise CannotLower(f"it carries or gives {arg}; accepted are tensors and integers")
    number = context.temporary("number", DType.INT64, ())
    context.pointwise(number, lambda index: constant(arg, DType.INT64))
    return number


def _truth(context: Context, predicate: Ref) -> Ref:
    """A predicate as a 0-d bool."""
    shape = context.shape(predicate)
    if not shape and context.dtype(predicate) is DType.BOOL:
        return predicate
    _check_one_element(context, predicate, "its predicate")
    first = (Int.of(0),) * len(shape)
    asked = context.temporary("asked", DType.BOOL, ())
    context.pointwise(asked, lambda index: cast(context.load(predicate, first), DType.BOOL))
    return asked


def _check_one_element(context: Context, tensor: Ref, what: str) -> None:
    shape = context.shape(tensor)
    if any(size.constant != 1 for size in shape):
        raise CannotLower(f"{what} has the shape [{', '.join(map(str, shape))}], not one element")


# --- loop-carried numbers, and numbers read from a tensor --------------------------------------

_ARITHMETIC = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "floordiv": "floordiv",
    "mod": "remainder",
    "min": "minimum",
    "max": "maximum",
    "truediv": "div",
    "pow": "pow",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "eq": "eq",
    "ne": "ne",
}


_OF_INTEGERS = ("floordiv", "mod")  # for floats, Python raises on a zero divisor
_OF_FLOATS = ("truediv", "pow")


@lowering(*(f"operator.{name}" for name in _ARITHMETIC))
def arithmetic(context: Context, a: Ref | Scalar, b: Ref | Scalar) -> None:
    """Python's arithmetic, on floats or on integers, which wrap at 64 bits."""
    name = context.node.op.removeprefix("operator.")
    wide = name in _OF_FLOATS or _is_float(context, a) or _is_float(context, b)
    dtype = DType.FLOAT64 if wide else DType.INT64
    if dtype.is_float and name in _OF_INTEGERS:
        raise CannotLower(f"{name} of a float is not computed; of integers it is")

    def value(index: Index) -> Value:
        left, right = (context.operand(part, index, dtype) for part in (a, b))
        return apply(_ARITHMETIC[name], left, right)

    context.pointwise(context.result(), value)


def _is_float(context: Context, number: Ref | Scalar) -> bool:
    return context.dtype(number).is_float if isinstance(number, Ref) else isinstance(number, float)


@lowering("operator.item")
def item(context: Context, a: Ref) -> None:
    """A tensor's only element; floats become float64, as Python's are."""
    _check_one_element(context, a, "its tensor")
    first = (Int.of(0),) * context.rank(a)
    dtype = context.dtype(context.result())
    context.pointwise(context.result(), lambda index: cast(context.load(a, first), dtype))


@lowering("operator.if")
def choice(context: Context, condition: Ref, a: Ref | Scalar, b: Ref | Scalar) -> None:
    """Select one of two numbers."""
    dtype = context.dtype(context.result())

    def value(index: Index) -> Value:
        left, right = (context.operand(part, index, dtype) for part in (a, b))
        return where(context.load(condition, ()), left, right)

    context.pointwise(context.result(), value)


@lowering("operator.float", "operator.sqrt")
def of_float(context: Context, a: Ref | Scalar) -> None:
    """A number as a float, or the root of one."""

    def value(index: Index) -> Value:
        number = context.operand(a, index, DType.FLOAT64)
        return apply("sqrt", number) if context.node.op == "operator.sqrt" else number

    context.pointwise(context.result(), value)


@lowering("operator.neg")
def negative(context: Context, a: Ref) -> None:
    context.pointwise(context.result(), lambda index: apply("neg", context.load(a, index)))


@lowering("operator.not_")
def logical_not(context: Context, a: Ref) -> None:
    context.pointwise(context.result(), lambda index: apply("logical_not", context.load(a, index)))


@lowering("operator.and_", "operator.or_")
def junction(context: Context, a: Ref | Scalar, b: Ref | Scalar) -> None:
    """The conjunction or disjunction of two conditions."""
    op = f"logical_{context.node.op.removeprefix('operator.').strip('_')}"

    def value(index: Index) -> Value:
        left, right = (context.operand(part, index, DType.BOOL) for part in (a, b))
        return apply(op, left, right)

    context.pointwise(context.result(), value)
