"""The stage as a whole: names, origins, outputs, and the list of all refusals."""

import pytest

from aotpack.errors import UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Matmul, Pointwise
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.verify.program import verify
from aotpack.lower import lower
from aotpack.stages import GraphNode, Ref, Source, TensorSpec, Weight
from tests.lower.oracle import node, traced

BATCH = Var("b", 1, 64)


def spec(name: str, *shape: Int | int) -> TensorSpec:
    return TensorSpec(name, DType.FLOAT32, tuple(map(Int.of, shape)))


def weight(name: str, *shape: int) -> Weight:
    return Weight(name, (name,), DType.FLOAT32, shape, memoryview(b""))


@pytest.mark.row("S:A3", "S:A5", "S:L2")
def test_linear_reads_as_a_person_would_write_it() -> None:
    b = Int.of(BATCH)
    source = Source("model.py", 3, "return self.fc(x)")
    call = node(
        "linear", "aten.linear.default", (Ref("x"), Ref("w"), Ref("v")), spec("y", b, 2, 4), source
    )
    graph = traced(
        [call],
        (spec("x", b, 2, 8),),
        (Ref("linear"),),
        (BATCH,),
        (weight("w", 4, 8), weight("v", 4)),
    )
    lowered = lower(graph)
    verify(lowered.program)
    assert lowered.as_text() == (
        "size b in [1, 64]\n"
        "input x: float32[b, 2, 8]\n"
        "weight w: float32[4, 8]\n"
        "weight v: float32[4]\n"
        "\n"
        "linear_product: float32[2*b, 4]\n"
        "for i0 < 2*b, i1 < 4:  # linear; model.py:3: return self.fc(x)\n"
        "    linear_product[i0, i1] = sum(x[(i0//2), (i0%2), r0] * w[i1, r0] for r0 < 8)"
        "  # factors in float32\n"
        "\n"
        "linear: float32[b, 2, 4]\n"
        "for i0 < b, i1 < 2, i2 < 4:  # linear; model.py:3: return self.fc(x)\n"
        "    linear[i0, i1, i2] = linear_product[2*i0 + i1, i2] + v[i2]\n"
        "\n"
        "return linear\n"
    )


def test_two_dimensional_product_needs_no_second_operation() -> None:
    call = node("mm", "aten.mm.default", (Ref("x"), Ref("w")), spec("y", 3, 4))
    program = lower(
        traced([call], (spec("x", 3, 8),), (Ref("mm"),), (), (weight("w", 8, 4),))
    ).program
    (operation,) = program.operations
    assert isinstance(operation, Matmul)
    assert operation.target == "mm"


@pytest.mark.row("S:A3")
def test_origin_names_node_operator_and_line() -> None:
    call = node(
        "relu", "aten.relu.default", (Ref("x"),), spec("y", 3), Source("m.py", 1, "relu(x)")
    )
    (operation,) = lower(traced([call], (spec("x", 3),), (Ref("relu"),))).program.operations
    assert isinstance(operation, Pointwise)
    assert operation.origin.nodes == ("relu",)
    assert operation.origin.ops == ("aten.relu.default",)
    assert operation.origin.sources == ("m.py:1: relu(x)",)


@pytest.mark.row("S:E2", "S:inv36")
def test_an_input_returned_as_it_is_becomes_a_copy() -> None:
    program = lower(traced([], (spec("x", 3),), (Ref("x"), Ref("x")))).program
    verify(program)
    assert program.outputs == ("x_copy", "x_copy_1")


@pytest.mark.row("S:D1")
def test_a_tensor_returned_twice_is_written_twice() -> None:
    call = node("relu", "aten.relu.default", (Ref("x"),), spec("y", 3))
    program = lower(traced([call], (spec("x", 3),), (Ref("relu"), Ref("relu")))).program
    verify(program)
    assert program.outputs == ("relu", "relu_copy")


def test_temporaries_leave_names_of_later_nodes_alone() -> None:
    calls = [
        node("softmax", "aten.softmax.int", (Ref("x"), 0), spec("y", 3)),
        node("softmax_max", "aten.relu.default", (Ref("softmax"),), spec("z", 3)),
    ]
    program = lower(traced(calls, (spec("x", 3),), (Ref("softmax_max"),))).program
    verify(program)
    assert program.outputs == ("softmax_max",)
    assert "softmax_max_1" in program.buffers


def test_a_size_named_like_an_axis_is_no_axis() -> None:
    size = Var("i0", 1, 8)
    call = node("relu", "aten.relu.default", (Ref("x"),), spec("y", Int.of(size)))
    verify(lower(traced([call], (spec("x", Int.of(size)),), (Ref("relu"),), (size,))).program)


@pytest.mark.row("S:H1", "S:H10", "S:H11", "S:H12", "S:P2")
def test_all_refusals_are_listed_at_once() -> None:
    def refused(name: str, op: str, line: int) -> GraphNode:
        return node(name, op, (Ref("x"),), spec(name, 3), Source("m.py", line, f"y = {name}(x)"))

    calls = [
        refused("cholesky", "aten.cholesky.default", 4),
        refused("cholesky_1", "aten.cholesky.default", 5),
        refused("mul", "aten.mul.out", 6),
        refused("relu", "aten.relu.default", 7),
        refused("tril", "aten.elu.default", 8),
    ]
    calls[4] = node("elu", "aten.elu.default", (Ref("x"), 1.0, 1.0, 1.0, 1.0), spec("elu", 3))
    with pytest.raises(UnsupportedError) as caught:
        lower(traced(calls, (spec("x", 3),), (Ref("cholesky"),)))
    text = str(caught.value)
    assert text.startswith("lowering 'test': 4 of 5 operator calls cannot be lowered (")
    assert "aten.cholesky.default (2 calls): this operator has no lowering\n" in text
    assert "    m.py:4: y = cholesky(x)\n    m.py:5: y = cholesky_1(x)\n" in text
    assert "aten.mul.out (1 call): this overload has no lowering; aten.mul.Scalar, " in text
    assert "aten.elu.default (1 call): its arguments are not accepted: too many" in text
    assert "relu" not in text
