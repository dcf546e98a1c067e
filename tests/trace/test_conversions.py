"""Which conversions of a graph are the model's own, and the reference that keeps those."""

import pytest
import torch
from torch import nn

from aotpack.ir.rounding import CONVERSIONS
from aotpack.lower import LOWERINGS
from aotpack.stages import Traced, every_node
from aotpack.trace import trace

X = torch.tensor([[0.999, 2049.0, -1.0, 1 / 3]])


def traced(function, *args: torch.Tensor, modules: dict[str, nn.Module] | None = None) -> Traced:
    module = type("Model", (nn.Module,), {"forward": function})()
    for name, child in (modules or {}).items():
        module.add_module(name, child)
    return trace(module, args, name="m", version="1", whole=frozenset(LOWERINGS))


def rounding(made: Traced) -> list[bool]:
    """Whether each conversion rounds, in order."""
    nodes = every_node(made.graph.nodes)
    return [node.rounds for node in nodes if node.op in CONVERSIONS]


def exact(made: Traced) -> torch.Tensor:
    _, dtype, shape, data = made.golden.outputs[0]
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, str(dtype))).view(shape)


OWN = {
    "to": lambda self, x: x.to(torch.float16),
    "half": lambda self, x: x.half(),
    "device": lambda self, x: x.to("cpu", torch.bfloat16),
    "copy": lambda self, x: x.to(torch.bfloat16, copy=True),
    "to_copy": lambda self, x: torch.ops.aten._to_copy(x, dtype=torch.bfloat16),
    "prims": lambda self, x: torch.ops.prims.convert_element_type(x, torch.bfloat16),
    "assigned": lambda self, x: torch.zeros(1, 4, dtype=torch.half).copy_(x),
    "float8": lambda self, x: x.to(torch.float8_e5m2).to(torch.float16),
    "integers": lambda self, x: (x * 1e9).long().float(),
}


@pytest.mark.parametrize("name", OWN)
def test_a_conversion_of_the_model_rounds(name: str) -> None:
    made = traced(OWN[name], X)
    assert any(rounding(made))
    assert torch.equal(exact(made).float(), OWN[name](None, X).float())
    assert " and round" in made.as_text()


def test_in_a_branch_too() -> None:
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.half().float(), lambda x: x * 2, (x,))

    made = traced(forward, X)
    assert rounding(made) == [True, False]
    assert torch.equal(exact(made), X.half().float())


def test_a_widening_does_not() -> None:
    made = traced(lambda self, x: (x / 3).float().double(), X.bfloat16())
    assert rounding(made) == [False, False]
    assert torch.equal(exact(made), X.bfloat16().double() / 3)


@pytest.mark.parametrize(
    ("integers", "floats", "rounds"),
    [
        (torch.uint8, torch.bfloat16, False),
        (torch.int16, torch.float16, True),
        (torch.int16, torch.float32, False),
        (torch.int32, torch.float32, True),
        (torch.bool, torch.float8_e5m2, False),
    ],
)
def test_of_integers_if_the_type_lacks_some(
    integers: torch.dtype, floats: torch.dtype, rounds: bool
) -> None:
    made = traced(lambda self, x: x.to(floats).float(), X.abs().to(integers))
    assert rounding(made)[0] is rounds


def test_those_of_a_decomposition_do_not() -> None:
    made = traced(lambda self, x: nn.functional.smooth_l1_loss(x, x * 2), X.bfloat16())
    assert rounding(made) == [False] * 3


def test_those_of_an_autocast_region_do_but_not_of_decompositions_in_it() -> None:
    layer = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return nn.functional.smooth_l1_loss(self.layer(x).half(), x.half())

    made = traced(forward, X, modules={"layer": layer})
    text = made.as_text()
    assert text.count(" and round") >= 4  # input, weight, bias; the two of the model


def test_a_decision_of_the_reference_takes_rounded_numbers(trace_function) -> None:
    a, b = X.bfloat16(), torch.tensor([[1 / 3, 7.0, 0.01, 2.0]]).bfloat16()

    def forward(self, a, b, c):
        total = a + b
        return total == c, total.floor(), total.argmax(1), *total.view(2, 2).max(1)

    made = trace_function(forward, a, b, a + b)
    assert made.golden.eager_errors[:3] == (0, 0, 0)
    values, places = made.golden.outputs[3:]
    assert torch.frombuffer(bytearray(places[3]), dtype=torch.int64).tolist() == [1, 1]
    wide = (a.double() + b.double()).view(2, 2).amax(1)
    assert torch.frombuffer(bytearray(values[3]), dtype=torch.float32).equal(wide.float())
