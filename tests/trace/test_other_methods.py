"""Methods that need Python values which another method leaves are refused; other ones are not."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from aotpack.errors import TraceError
from aotpack.stages import Traced
from aotpack.trace import Method, TraceOptions, trace_methods

X = torch.tensor([1.0, 3.0])
Forward = Callable[[Any, Tensor], Tensor]


class Model(nn.Module):
    """Methods over state of every form."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.zeros(2))
        self.mem, self.pos, self.table, self.rows = torch.zeros(2), 0, None, []
        self.object = SimpleNamespace(length=0)
        self.fresh = True


def traced(**methods: Forward) -> dict[str, Traced]:
    module = type("Made", (Model,), methods)()
    given = {name: Method(getattr(module, name), (X,)) for name in methods}
    return trace_methods(given, TraceOptions("m", "1"))


def keeps_a_tensor(m: Any, x: Tensor) -> Tensor:
    m.mem = x * 2
    return x + 1


def counts(m: Any, x: Tensor) -> Tensor:
    m.pos += 1
    return x + 1


def counts_in_an_object(m: Any, x: Tensor) -> Tensor:
    m.object.length += 1
    return x + 1


def appends(m: Any, x: Tensor) -> Tensor:
    m.rows.append(x * 1)
    return x + 1


def calibrates(m: Any, x: Tensor) -> Tensor:
    m.table = x * 2
    return x + m.table


def is_calibrated(m: Any, x: Tensor) -> Tensor:
    return x if m.table is None else x + m.table


def copies(m: Any, x: Tensor) -> Tensor:
    m.pos = m.pos + 0
    m.object.length = m.pos
    return x * 3


LOST: dict[str, tuple[dict[str, Forward], str]] = {
    "tensor": (
        {"encode": keeps_a_tensor, "decode": lambda m, x: x + m.mem},
        "decode needs what encode leaves in Python, .*: after encode, .*output0 differs by 6 .*"
        r"\n  encode assigns the attribute mem anew; write self.mem.copy_.*pass it to decode",
    ),
    "other order": (
        {"decode": lambda m, x: x + m.mem, "encode": keeps_a_tensor},
        r"decode needs what encode leaves .*\n  encode assigns the attribute mem anew",
    ),
    "number": (
        {"encode": counts, "decode": lambda m, x: x + m.pos},
        r"decode needs .*\n  encode changes the attribute pos from 0 to 1; keep a buffer",
    ),
    "number of an object": (
        {"encode": counts_in_an_object, "decode": lambda m, x: x + m.object.length},
        r"decode needs .*\n  encode changes the attribute object.length from 0 to 1",
    ),
    "list": (
        {"encode": appends, "decode": lambda m, x: x + len(m.rows)},
        r"decode needs .*\n  encode changes the attribute rows, a list \(0 items, then 1\)",
    ),
    "calibration": (
        {"first": calibrates, "second": is_calibrated},
        r"second needs .*\n  first sets the attribute table, which was None",
    ),
    "failure": (
        {"encode": counts, "decode": lambda m, x: x.reshape(2, m.pos + 1)},
        r"decode needs .*: after encode, it fails: .*\n  encode changes the attribute pos",
    ),
    "values that zeros hide": (
        {"encode": keeps_a_tensor, "decode": lambda m, x: x + m.mem * 0},
        r"decode needs .*: after encode, it reads what encode makes of its inputs"
        r"\n  encode assigns the attribute mem",
    ),
    "third method": (
        {"encode": counts, "step": copies, "decode": lambda m, x: x + m.object.length},
        r"decode needs what encode and step leave .*\n  .* the attribute object.length",
    ),
    "later call": (
        {"encode": counts, "decode": lambda m, x: x + (m.pos > 1)},
        r"decode needs what encode leaves .*\n  encode changes the attribute pos",
    ),
    "back": (
        {"encode": lambda m, x: counts(m, x) + m.object.length, "step": copies},
        r"encode needs what encode and step leave .*\n  .* the attribute object.length",
    ),
}


@pytest.mark.parametrize("kind", LOST)
def test_what_another_method_needs_is_refused_by_name(kind: str) -> None:
    methods, words = LOST[kind]
    with pytest.raises(TraceError, match=f"(?s)tracing m: the method {words}"):
        traced(**methods)


class Both(nn.Module):
    """A module that is both methods, by the size of its input."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.mem, self.keeps = torch.zeros(2), keeps

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 2:
            return x + self.mem.sum()
        if self.keeps:
            self.mem = x * 2
        return torch.rand_like(x) + x


def test_a_module_given_twice_is_one_module() -> None:
    def given(module: nn.Module) -> dict[str, Method]:
        return {"encode": Method(module, (X,)), "decode": Method(module, (torch.ones(3),))}

    with pytest.raises(TraceError, match=r"decode needs what encode .*\n.* the attribute mem anew"):
        trace_methods(given(Both(keeps=True)), TraceOptions("m", "1"))
    made = trace_methods(given(Both(keeps=False)), TraceOptions("m", "1"))
    assert [spec.name for spec in made["encode"].graph.signature.inputs] == ["x", "seed"]


def test_hooks_of_a_module_given_twice_are_called() -> None:
    layer = Both(keeps=False)
    layer.register_forward_pre_hook(lambda m, inputs: (inputs[0] * 2,))
    big = torch.ones(3)
    given = {"one": Method(layer, (big,)), "two": Method(layer, (big,))}
    for one in trace_methods(given, TraceOptions("m", "1")).values():
        assert "aten.mul.Tensor" in {node.op for node in one.graph.nodes}


NOTES: dict[str, Tensor] = {}


def notes(m: Any, x: Tensor) -> Tensor:
    NOTES["x"] = x * 2
    return x + 1


def reads_notes(m: Any, x: Tensor) -> Tensor:
    return x + NOTES.get("x", 0)


@pytest.mark.parametrize("order", [1, -1])
def test_values_in_globals_are_refused(order: int) -> None:
    methods = dict([("note", notes), ("read", reads_notes)][::order])
    words = "read needs what note leaves .*note changes the global variable NOTES, a dict"
    with pytest.raises(TraceError, match=f"(?s){words}"):
        traced(**methods)
    assert not NOTES


def test_modules_that_share_a_plain_object_are_refused() -> None:
    shared = SimpleNamespace(mem=torch.zeros(2))

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = shared

    class Writer(Part):
        def forward(self, x: Tensor) -> Tensor:
            self.shared.mem = x * 2
            return x + 1

    class Reader(Part):
        def forward(self, x: Tensor) -> Tensor:
            return x + self.shared.mem

    given = {"write": Method(Writer(), (X,)), "read": Method(Reader(), (X,))}
    with pytest.raises(TraceError, match=r"write assigns the attribute write.shared.mem anew"):
        trace_methods(given, TraceOptions("m", "1"))


def writes(m: Any, x: Tensor) -> Tensor:
    m.mem.copy_(x * 2)
    m.b.add_(x)
    return x + 1


def fills_a_table(m: Any, x: Tensor) -> Tensor:
    if m.table is None:
        m.table = torch.arange(2) * 0.5
    return x + m.table


def makes_a_mask_anew(m: Any, x: Tensor) -> Tensor:
    m.table = torch.arange(2) * 0.5
    return x + m.table


KEPT: dict[str, dict[str, Forward]] = {
    "state": {"encode": writes, "decode": lambda m, x: x + m.mem + m.b},
    "state read first": {"decode": lambda m, x: x + m.mem + m.b, "encode": writes},
    "tables": {"one": fills_a_table, "two": lambda m, x: fills_a_table(m, x) * 2},
    "masks": {"one": makes_a_mask_anew, "two": lambda m, x: fills_a_table(m, x) * 2},
    "what nobody reads": {"one": counts, "two": keeps_a_tensor, "three": lambda m, x: x * 4},
    "each its own": {"one": keeps_a_tensor, "two": lambda m, x: keeps_a_tensor(m, x) + m.mem},
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_no_other_method_needs_is_accepted(kind: str) -> None:
    made = traced(**KEPT[kind])
    found = {name: len(one.graph.signature.updates) for name, one in made.items()}
    state = {"encode": 2, "decode": 0} if kind.startswith("state") else dict.fromkeys(found, 0)
    assert found == state
