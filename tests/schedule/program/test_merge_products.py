"""Products of one left factor become one wide product; nothing else does."""

import numpy as np
import pytest

from aotpack.ir.operations import Matmul
from aotpack.ir.program import Buffer, PackedWeight, Program
from aotpack.ir.verify.program import verify
from aotpack.schedule.program.merge_products import in_memory_order, merge_products
from aotpack.stages import Weight
from tests.schedule.programs import F32, Writer, apply, assert_same, load

WIDTH = 64  # a bias of 64 float32 fills 256 bytes: the next can follow without a gap


def linears(
    *,
    width: int = WIDTH,
    biases: tuple[bool, ...] = (True, True, True),
    same_input: bool = True,
    same_weight: bool = False,
    as_input: bool = False,
) -> Program:
    w = Writer()
    x, z = w.input("x", 5, 16), w.input("z", 5, 16)
    outputs: list[Buffer] = []
    for number, biased in enumerate(biases):
        name = "w0" if same_weight else f"w{number}"
        make = w.input if as_input else w.weight
        weight = w.buffers.get(name) or make(name, width, 16)
        left = x if same_input or number == 0 else z
        product = w.matmul(f"p{number}", 5, width, 16, left, weight)
        bias = w.weight(f"b{number}", width) if biased else None
        outputs.append(
            w.pointwise(
                f"y{number}",
                [5, width],
                lambda i, j, product=product, bias=bias: (
                    apply("add", load(product, i, j), load(bias, j))
                    if bias
                    else load(product, i, j)
                ),
            )
        )
    return w.program(*outputs)


def products(program: Program) -> list[int]:
    """The widths of the products."""
    return [int(op.n.extent) for op in program.operations if isinstance(op, Matmul)]


@pytest.mark.parametrize("biases", [(True, True, True), (False, False)], ids=str)
def test_merges_linears_of_one_input(biases: tuple[bool, ...]) -> None:
    program = linears(biases=biases)
    merged = merge_products(program)
    verify(merged)
    assert products(merged) == [WIDTH * len(biases)]
    assert merged.packed[0] == PackedWeight(
        "w0+1" if len(biases) == 2 else "w0+2", tuple(f"w{n}" for n in range(len(biases)))
    )
    assert_same(program, merged)


@pytest.mark.parametrize(
    "program",
    [
        linears(width=60),
        linears(same_input=False, biases=(True, True)),
        linears(same_weight=True, biases=(False, False)),
        linears(biases=(True, False)),
        linears(biases=(True,)),
        linears(as_input=True, biases=(False, False)),
    ],
    ids=["gaps", "other_input", "same_weight", "one_bias", "alone", "no_weight"],
)
def test_leaves_others_alone(program: Program) -> None:
    assert merge_products(program) is program


def test_parts_follow_each_other_in_memory() -> None:
    def weight(name: str) -> Weight:
        return Weight(name, (name,), F32, (1,), memoryview(np.zeros(4, np.uint8)))

    weights = tuple(map(weight, ("q", "norm", "k", "v")))
    ordered = in_memory_order(weights, (PackedWeight("q+2", ("q", "k", "v")),))
    assert [w.name for w in ordered] == ["q", "k", "v", "norm"]
    assert in_memory_order(weights, ()) == weights
