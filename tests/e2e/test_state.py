"""Tensors a model changes in place: calls in a row leave what eager leaves (S:D8, D9, H14)."""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import aotpack
from aotpack.emit import write_package
from aotpack.errors import TraceError
from aotpack.ir.program import targets
from aotpack.ir.symbolic.integers import product
from aotpack.lower import lower
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.runtime import load
from aotpack.runtime.selftest import check_golden
from aotpack.schedule import schedule
from aotpack.target import parse_targets

TARGETS = ("cpu", "interpreter")


class Stateful(nn.Module):
    """A buffer ``state`` of the given shape, changed by ``step(state, x)``."""

    def __init__(self, step: Any, state: torch.Tensor, persistent: bool = True) -> None:
        super().__init__()
        self.register_buffer("state", state, persistent)
        self.step = step

    def forward(self, x: torch.Tensor) -> Any:
        return self.step(self.state, x)


def count(state, x):
    state.add_(1)
    return x * state


def average(state, x):
    state.mul_(0.9).add_(0.1 * x.mean(0))
    return x - state


def shift(state, x):
    """Each element moves to a place another reads: this cannot be written in place."""
    state.copy_(torch.cat([state[1:], x[:1]]))
    return state.sum(0)


def blend(state, x):
    old = state.clone()
    state.copy_(torch.where(x > 0, x, state))
    return old, state


def product_of_old(state, x):
    """The old value is read by a product that is launched after the new one is known."""
    y = x @ state
    state.add_(x.sum())
    return y


def accumulate(state, x):
    state.add_(x.exp().sum(-1, keepdim=True))
    return state.mean()


def take_rows(state, x):
    """A cache: rows take the places of others, and all are read."""
    state.index_copy_(0, torch.tensor([5, 2, 0, 3]), x)
    return torch.softmax(x @ state.t(), -1) @ state


def count_rows(state, x):
    """Sums at places that depend on what came, some of them at the same."""
    state.index_add_(0, x.argmax(1), x)
    state[x.argmin(1)] = 0
    return state * 2


def take_rows_from_old(state, x):
    old = state.sum(0)
    state[torch.tensor([1, 4])] = x[:2] + state[:2]
    return old


def write_part(state, x):
    """A key-value cache: one line is replaced, and all are read."""
    state[1:3] = x[:2] * 2
    state[-1] = x[3]
    return x @ state.T


def write_windows(state, x):
    state.unfold(0, 1, 2).add_(x[0, 0])
    return state.sum(0)


CASES = {
    "write_windows": (write_windows, torch.ones(6, 4)),
    "write_part": (write_part, torch.zeros(6, 4)),
    "count": (count, torch.zeros((), dtype=torch.int64)),
    "average": (average, torch.zeros(4)),
    "shift": (shift, torch.zeros(5, 4)),
    "blend": (blend, torch.zeros(4, 4)),
    "product_of_old": (product_of_old, torch.eye(4)),
    "accumulate": (accumulate, torch.zeros(4, 1)),
    "take_rows": (take_rows, torch.zeros(6, 4)),
    "take_rows_bfloat16": (take_rows, torch.zeros(6, 4, dtype=torch.bfloat16)),
    "count_rows": (count_rows, torch.zeros(6, 4)),
    "take_rows_from_old": (take_rows_from_old, torch.ones(6, 4)),
    "bfloat16": (average, torch.zeros(4, dtype=torch.bfloat16)),
}


@pytest.mark.row("S:D8", "S:D9", "S:H14", "S:inv11")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_state_goes_on_from_call_to_call(name: str, target: str) -> None:
    step, state = CASES[name]
    module = Stateful(step, state.clone())
    xs = [torch.randn(4, 4, dtype=_float(state), generator=_seed(k)) for k in range(3)]
    packaged = aotpack.compile(module, (xs[0],), target=target)
    eager = copy.deepcopy(module)
    eps = torch.finfo(xs[0].dtype).eps
    for x in xs:
        torch.testing.assert_close(packaged(x), eager(x), rtol=4 * eps, atol=4 * eps)
        left = torch.from_dlpack(packaged.state["state"])
        torch.testing.assert_close(left, eager.state, rtol=4 * eps, atol=4 * eps)
    assert torch.equal(module.state, state), "the user's module is as it was"


def _float(state: torch.Tensor) -> torch.dtype:
    return state.dtype if state.is_floating_point() else torch.float32


def _seed(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


@pytest.mark.row("S:L12", "S:H14", "C:H5")
@pytest.mark.parametrize("target", TARGETS)
def test_inputs_are_changed_where_they_lie(target: str) -> None:
    class Model(nn.Module):
        def forward(self, x, cache):
            cache.mul_(2).add_(x)
            return cache.sum()

    given = torch.randn(3, 4), torch.randn(3, 4)
    packaged = aotpack.compile(Model(), given, target=target)
    assert packaged.state == {}
    for make in (torch.clone, lambda t: t.numpy().copy()):
        mine, theirs = make(given[1]), given[1].clone()
        for _ in range(2):
            found, wanted = packaged(make(given[0]), mine), Model()(given[0], theirs)
            torch.testing.assert_close(torch.as_tensor(found), wanted)
            torch.testing.assert_close(torch.as_tensor(mine), theirs)


@pytest.mark.parametrize("persistent", [True, False])
def test_golden_data_holds_what_the_first_call_leaves(tmp_path: Any, persistent: bool) -> None:
    module = Stateful(average, torch.ones(4), persistent)
    source = Source(module, (torch.randn(4, 4),))
    write_package(Build(source, BuildOptions(parse_targets("interpreter"))).precompiled, tmp_path)
    with load(tmp_path, InterpreterDevice()) as model:
        first = check_golden(model, model)
        assert [check.name for check in first] == ["output0", "state state"]
        assert all(check.is_passed for check in first)
        again = check_golden(model, model)
        assert not all(check.is_passed for check in again), "the state has moved on"
        model.bind_weights({"state": np.ones(4, np.float32)}, strict=False)
        assert all(check.is_passed for check in check_golden(model, model))


def test_calls_that_change_state_take_turns_whatever_the_concurrency(tmp_path: Any) -> None:
    source = Source(Stateful(count, torch.zeros(())), (torch.ones(2),))
    write_package(Build(source, BuildOptions(parse_targets("cpu"))).precompiled, tmp_path)
    with load(tmp_path, "cpu", concurrency=4) as model, ThreadPoolExecutor(8) as pool:
        found = [
            result[0].item() for result in pool.map(lambda _: model(torch.ones(2)), range(200))
        ]
    assert sorted(found) == [*range(1, 201)]


def test_state_is_no_argument() -> None:
    state = torch.zeros(2, 3)
    model = aotpack.compile(Stateful(count, state), (torch.ones(2, 3),), target="cpu")
    alias = torch.from_dlpack(model.state["state"])
    with pytest.raises(aotpack.AotpackError, match="'x' is the memory of 'state'"):
        model(alias)
    model(alias.clone())


@pytest.mark.parametrize("target", TARGETS)
def test_results_that_are_state_are_copies(target: str) -> None:
    model = Stateful(lambda state, x: (state.add_(x), state[1:]), torch.zeros(3))
    compiled = aotpack.compile(model, (torch.ones(3),), target=target)
    whole, part = compiled(torch.ones(3))
    whole.fill_(5)
    assert [one.tolist() for one in compiled(torch.ones(3))] == [[2.0] * 3, [2.0] * 2]
    assert part.tolist() == [1.0] * 2


def test_state_may_be_written_by_its_owner() -> None:
    packaged = aotpack.compile(
        Stateful(count, torch.zeros((), dtype=torch.int64)), (torch.ones(2),), target="cpu"
    )
    packaged(torch.ones(2))
    torch.from_dlpack(packaged.state["state"]).fill_(41)
    assert torch.equal(packaged(torch.ones(2)), torch.full((2,), 42.0))


class Three(nn.Module):
    """Three states, the last of which overlaps no other."""

    def __init__(self) -> None:
        super().__init__()
        for number, name in enumerate("abc"):
            self.register_buffer(name, torch.arange(4.0) + 10 * number)

    def forward(self, x: torch.Tensor) -> Any:
        for state in (self.a, self.b, self.c):
            state.add_(x)
        return self.a + self.b - self.c


def test_states_change_places() -> None:
    """Each is read before any is overwritten, whether views are given or copies."""
    for own in (True, False):
        model = aotpack.compile(Three(), (torch.ones(4),), target="cpu")
        views = {name: torch.from_dlpack(view) for name, view in model.state.items()}
        turned = {"a": views["b"], "b": views["c"], "c": views["a"]}
        given = turned if own else {name: view.clone() for name, view in turned.items()}
        wanted = {name: view.clone() for name, view in turned.items()}
        model.bind_weights(given, strict=False)
        for name, view in views.items():
            assert torch.equal(view, wanted[name])
        model.bind_weights(views)
        assert torch.equal(model(torch.zeros(4)), wanted["a"] + wanted["b"] - wanted["c"])


@pytest.mark.row("S:D8")
@pytest.mark.parametrize(
    ("name", "copies"),
    [("count", 0), ("write_part", 0), ("blend", 0), ("product_of_old", 0), ("shift", 1)],
)
def test_no_hidden_copies(name: str, copies: int) -> None:
    step, state = CASES[name]
    traced = Build(Source(Stateful(step, state.clone()), (torch.randn(4, 4),))).traced
    made = schedule(lower(traced)).schedule
    (update,) = made.program.updates
    kernels = [k for k in made.kernels if any(_is_copy(k, m, update.value) for m in k.members)]
    assert len(kernels) == copies


def test_only_what_is_replaced_is_written() -> None:
    step, state = CASES["write_part"]
    traced = Build(Source(Stateful(step, state.clone()), (torch.randn(4, 4),))).traced
    made = schedule(lower(traced)).schedule
    scatters = [kernel.scatter for kernel in made.kernels if kernel.scatter is not None]
    elements = [product(axis.extent for axis in s.axes).constant for s in scatters]
    assert elements == [2 * 4, 4] and scatters[0].base == "state"
    others = [k for k in made.kernels if k.scatter is None]
    stored = [made.program.buffers[name] for kernel in others for name in kernel.stored]
    assert all([size.constant for size in buffer.shape] != [6, 4] for buffer in stored)


def _is_copy(kernel: Any, member: Any, value: str) -> bool:
    return targets(member.operation) == (value,) and kernel.name == "copy"


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        whole = torch.zeros(4, 4)
        self.register_buffer("whole", whole)
        self.register_buffer("row", whole[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.row.add_(x)
        return self.whole.sum() + x


class SharedBesideEmpty(Shared):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("e", torch.empty(0))
        self.f = nn.Parameter(torch.empty(0, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.e.sum() + self.f.sum()


@pytest.mark.row("S:L7", "S:inv15")
@pytest.mark.parametrize("model", [Shared, SharedBesideEmpty])
def test_refuses_a_change_that_shows_elsewhere(model: type[nn.Module]) -> None:
    with pytest.raises(TraceError, match="model: whole and row share memory; give each its own"):
        aotpack.compile(model(), (torch.randn(4),), target="cpu")


class Tied(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.register_buffer("q", torch.zeros(rows, 4))
        self.tied = self.q

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.q.add_(1)
        return self.tied + 1, self.q.sum() + x


@pytest.mark.parametrize("rows", [0, 1])
def test_tied_state_of_any_size(rows: int) -> None:
    x = torch.randn(3)
    model, eager = aotpack.compile(Tied(rows), (x,), target="cpu"), Tied(rows)
    for _ in range(2):
        torch.testing.assert_close(model(x), eager(x))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("dtype", "rows"), [("bfloat16", 0), ("int32", 0), ("bool", 0), ("bfloat16", 4), ("float32", 4)]
)
def test_a_copy_takes_the_type_and_shape_of_the_state(dtype: str, rows: int, target: str) -> None:
    x = torch.tensor([1.01, 2.7, -0.3])
    shape = (rows, 3) if rows else (3,)
    module = Stateful(
        lambda state, x: (state.copy_(x).float() * 2, x + 1),
        torch.zeros(shape, dtype=getattr(torch, dtype)),
    )
    model = aotpack.compile(module, (x,), target=target)
    found, wanted = model(x), module(x)
    assert all(map(torch.equal, found, wanted))
    assert torch.equal(torch.from_dlpack(model.state["state"]), module.state)


class Holder:
    """A tensor in an object that is no module."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def of_inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(3)


PLACES: dict[str, tuple[Any, Callable[[Any], torch.Tensor]]] = {
    "attribute": (torch.ones(3), lambda held: held),
    "list": ([torch.ones(3)], lambda held: held[0]),
    "dict": ({"one": torch.ones(3)}, lambda held: held["one"]),
    "object": (Holder(torch.ones(3)), lambda held: held.tensor),
    "view": (torch.ones(2, 3), lambda held: held[1]),
    "inference": (of_inference(), lambda held: held),
}
WRITES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add": lambda state, x: state.add_(x),
    "average": lambda state, x: state.mul_(0.5).add_(x),
    "row": lambda state, x: state[:2].mul_(0.5),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("write", WRITES)
def test_plain_tensors_begin_as_the_model_has_them(place: str, write: str) -> None:
    """The export runs the operators on them."""
    held, found = PLACES[place]

    class Changed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = copy.deepcopy(held)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            WRITES[write](found(self.held), x)
            return found(self.held) + x

    model, x = Changed(), torch.arange(3.0)
    compiled = aotpack.compile(model, (x,), target="cpu")
    with torch.inference_mode():
        for _ in range(3):
            assert torch.equal(compiled(x), model(x))


COPIES = {
    "one source": lambda s, x: (s.a.copy_(x), s.b.copy_(x)),
    "a changed buffer": lambda s, x: (s.a.add_(x), s.b.copy_(s.a)),
    "a filled buffer": lambda s, x: (s.a.fill_(2).add_(x), s.b.copy_(s.a)),
    "a copy's result": lambda s, x: s.b.copy_(s.a.copy_(x)),
    "the old value": lambda s, x: (s.b.copy_(s.a), s.a.copy_(x)),
}


@pytest.mark.parametrize("change", COPIES.values(), ids=COPIES)
def test_two_buffers_may_get_one_value(change):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(2))
            self.register_buffer("b", torch.zeros(2))

        def forward(self, x):
            change(self, x)
            return x + 1

    x, eager = torch.ones(2), Both()
    model = aotpack.compile(Both(), (x,), target="interpreter")
    for n in range(1, 4):
        torch.testing.assert_close(model(x * n), eager(x * n))
    for name, view in model.state.items():
        torch.testing.assert_close(torch.from_dlpack(view), getattr(eager, name))
