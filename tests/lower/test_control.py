"""Branches and loops in the loop IR: what their parts write, and what makes them illegal."""

from dataclasses import replace

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.program import Branch, Loop, Program, Update
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.verify.program import InvalidProgram, verify
from aotpack.lower import lower
from aotpack.stages import (
    Arg,
    Body,
    Golden,
    Graph,
    GraphNode,
    Ref,
    Signature,
    TensorSpec,
    Traced,
)
from aotpack.trees import Tree

FLOAT, LONG, BOOL = DType.FLOAT32, DType.INT64, DType.BOOL
SIZE = Var("s", 1, 9)


def spec(name: str, dtype: DType = FLOAT, *shape: int | Var) -> TensorSpec:
    return TensorSpec(name, dtype, tuple(Int.of(size) for size in shape))


def call(name: str, op: str, *args: Arg, dtype: DType = FLOAT, shape: tuple = (3,)) -> GraphNode:
    return GraphNode(name, op, args, (), (spec(name, dtype, *shape),), None)


def program_of(
    inputs: tuple[TensorSpec, ...], nodes: tuple[GraphNode, ...], outputs: tuple[Ref, ...]
) -> Program:
    results = {Ref(n.name, k): r for n in nodes for k, r in enumerate(n.results)}
    results |= {Ref(given.name): given for given in inputs}
    leaf = Tree("leaf")
    signature = Signature(
        "m",
        "1",
        (SIZE,),
        inputs,
        tuple(replace(results[ref], name=f"output{k}") for k, ref in enumerate(outputs)),
        Tree("tuple", (leaf,) * len(inputs)),
        Tree("dict"),
        Tree("tuple", (leaf,) * len(outputs)),
    )
    graph = Graph(signature, (), nodes, outputs)
    program = lower(Traced(graph, Golden((), (), ()))).program
    verify(program)
    return program


def branch(predicate: Arg, first: Body, second: Body) -> Program:
    node = GraphNode(
        "cond",
        "higher_order.cond",
        (predicate,),
        (),
        (spec("cond", FLOAT, 3), spec("cond.1", FLOAT, 3)),
        None,
        bodies=(first, second),
    )
    inputs = (spec("x", FLOAT, SIZE), spec("y", FLOAT, 3), spec("p", BOOL))
    return program_of(inputs, (node,), (Ref("cond"), Ref("cond", 1)))


DOUBLE = Body((call("twice", "aten.mul.Tensor", Ref("y"), 2),), (Ref("twice"), Ref("twice")))
SAME = Body((), (Ref("y"), Ref("y")))
Y = np.array([1, 2, 3], np.float32)


def run(program: Program, s: int = 2, **inputs: object) -> list[np.ndarray]:
    arrays = {"x": np.zeros(s, np.float32), "y": Y, **inputs}
    given = {name: np.asarray(value) for name, value in arrays.items() if name in program.buffers}
    found = evaluate(program, given, {}, {"s": s})
    return [found[name] for name in program.outputs]


@pytest.mark.row("S:I3", "S:T2")
@pytest.mark.parametrize("sides", [(DOUBLE, SAME), (SAME, DOUBLE), (SAME, SAME)])
def test_each_side_writes_buffers_of_its_own(sides: tuple[Body, Body]) -> None:
    """Where a side gives an operand or a tensor twice, it gives copies."""
    program = branch(Ref("p"), *sides)
    (operation,) = program.operations
    assert isinstance(operation, Branch)
    for part in operation.sides:
        values = [update.value for update in part.updates]
        assert len({*values}) == 2 and not {*values} & {*part.inputs}
    for holds in (True, False):
        wanted = Y * 2 if sides[not holds] is DOUBLE else Y
        for found in run(program, p=holds):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.row("S:I3")
def test_sizes_decide_without_a_tensor() -> None:
    program = branch(Int.of(SIZE) // 5, DOUBLE, SAME)
    (operation,) = program.operations
    assert isinstance(operation, Branch) and str(operation.predicate) == "(s//5)"
    for s in (4, 5):
        np.testing.assert_array_equal(run(program, s)[0], Y * 2 if s == 5 else Y)


@pytest.mark.row("S:I3")
@pytest.mark.parametrize(("predicate", "factor"), [(Int.of(1), 2), (False, 1)])
def test_a_constant_predicate_leaves_one_side(predicate: Arg, factor: int) -> None:
    program = branch(predicate, DOUBLE, SAME)
    assert not any(isinstance(operation, Branch) for operation in program.operations)
    np.testing.assert_array_equal(run(program)[1], Y * factor)


def loop(body: Body, *first: Arg) -> Program:
    below = call("below", "operator.lt", Ref("loop"), 4, dtype=BOOL, shape=())
    node = GraphNode(
        "loop",
        "higher_order.while_loop",
        (first,),
        (),
        (spec("loop", LONG), spec("loop.1", FLOAT, 3), spec("loop.2", FLOAT, 3)),
        None,
        bodies=(Body((below,), (Ref("below"),)), body),
    )
    inputs = (spec("y", FLOAT, 3), spec("n", LONG))
    return program_of(inputs, (node,), tuple(Ref("loop", number) for number in range(3)))


NEXT = call("next", "operator.add", Ref("loop"), 1, dtype=LONG, shape=())
SWAP = Body((NEXT,), (Ref("next"), Ref("loop", 2), Ref("loop", 1)))
STAY = Body((NEXT,), (Ref("next"), Ref("loop", 1), Ref("loop", 2)))


@pytest.mark.row("S:I4")
@pytest.mark.parametrize("start", [0, 1, 4, 9])
@pytest.mark.parametrize("body", [SWAP, STAY])
def test_new_values_of_a_state_take_effect_together(body: Body, start: int) -> None:
    nodes = (call("more", "aten.add.Tensor", Ref("y"), 1),)
    program = loop(body, Ref("n"), Ref("y"), Ref("y"))
    (operation,) = program.operations
    assert isinstance(operation, Loop) and nodes
    assert len(operation.body.updates) == (3 if body is SWAP else 1)
    turns = max(0, 4 - start)
    count, one, other = run(program, n=np.int64(start))
    assert count == start + turns
    np.testing.assert_array_equal(one, Y)
    np.testing.assert_array_equal(other, Y)


@pytest.mark.row("S:I4")
def test_a_loop_prints_as_a_loop() -> None:
    text = str(loop(STAY, 0, Ref("y"), Ref("y")))
    assert "while loop_goes_on[()], by:" in text
    assert "    update loop_out0 = next" in text


@pytest.mark.row("S:A4", "S:I3", "S:I4")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda part: replace(part, updates=part.updates[:1]), "the parts write|a part should"),
        (lambda part: replace(part, sizes=()), "lacks sizes"),
        (lambda part: replace(part, updates=(Update("y", "twice"),)), "the parts write"),
    ],
)
def test_illegal_parts_are_refused(change: object, message: str) -> None:
    program = branch(Ref("p"), DOUBLE, DOUBLE)
    (operation,) = program.operations
    assert isinstance(operation, Branch)
    broken = operation.with_parts((change(operation.sides[0]), operation.sides[1]))
    with pytest.raises(InvalidProgram, match=message):
        verify(replace(program, operations=(broken,)))


def test_a_part_and_what_is_around_it_read_one_memory_order() -> None:
    program = branch(Ref("p"), DOUBLE, DOUBLE)
    other = replace(program.buffers["y"], order=(0,))
    with pytest.raises(InvalidProgram, match=r"a part has inputs \['y'\]"):
        verify(replace(program, buffers={**program.buffers, "y": other}))


@pytest.mark.row("S:A4", "S:I3")
def test_a_condition_is_one_bool() -> None:
    program = branch(Ref("p"), DOUBLE, DOUBLE)
    (operation,) = program.operations
    with pytest.raises(InvalidProgram, match="y: float32.3. is no condition"):
        verify(replace(program, operations=(replace(operation, predicate="y"),)))
    unknown = replace(operation, predicate=Int.of(Var("t", 1, 2)))
    with pytest.raises(InvalidProgram, match="t in t is no size of the program"):
        verify(replace(program, operations=(unknown,)))
