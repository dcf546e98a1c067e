"""Models that compute with weights alone: packages do that once, and answer as eager does."""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from aotpack.runtime import Model, WeightError
from aotpack.target import CPU, INTERPRETER, Target

from .oracle import GPU, agree, compile_all, on_gpu, tensors


class Wrapped(nn.Module):
    """``step(self, x)`` on some parameters and buffers."""

    def __init__(self, step: Callable[..., Any], **tensors: torch.Tensor) -> None:
        super().__init__()
        self.step = step
        for name, tensor in tensors.items():
            if name.startswith("b_"):
                self.register_buffer(name, tensor)
            else:
                setattr(self, name, nn.Parameter(tensor))

    def forward(self, x: torch.Tensor) -> Any:
        return self.step(self, x)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        narrow = self.first.weight.to(torch.bfloat16).to(x.dtype)
        return self.second(x) @ narrow * self.second.weight.exp().sum()


def counted(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.b_count.add_(1)
    return x * m.b_count.exp() * m.w.exp()


class Heads(nn.Module):
    """Three products of one input, by weights of whole 256 bytes: those of ``merge_products``."""

    def __init__(self, derived: str) -> None:
        super().__init__()
        self.derived = derived
        self.a, self.b, self.c = (nn.Linear(16, 64) for _ in "abc")

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = []
        for name, layer in (("a", self.a), ("b", self.b), ("c", self.c)):
            weight, bias = layer.weight, layer.bias
            weight = weight.exp() if name in self.derived else weight
            bias = bias.exp() if name.upper() in self.derived else bias
            given.append(nn.functional.linear(x, weight, bias))
        return tuple(given)


def branched(m: Any, x: torch.Tensor) -> torch.Tensor:
    grown = m.w.exp()

    def one(x: torch.Tensor) -> torch.Tensor:
        return x * grown

    def two(x: torch.Tensor) -> torch.Tensor:
        return x - grown

    return torch.cond(x.sum() > 0, one, two, (x,))


def norms() -> nn.Module:
    made = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4))
    for layer in (made[1], made[3]):
        layer.running_var.uniform_(0.5, 2)
        layer.running_mean.normal_()
        nn.init.normal_(layer.weight)
    return made


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


Case = tuple[Callable[[], nn.Module], tuple[int, ...], int]
CASES: dict[str, Case] = {  # model, shape of its input, number of derived weights
    "batch norm": (norms, (2, 2, 6, 6), 2),
    "cast": (
        lambda: Wrapped(lambda m, x: x.bfloat16() @ m.w.bfloat16().t(), w=drawn(6, 8)),
        (4, 8),
        1,
    ),
    "concatenation": (
        lambda: Wrapped(lambda m, x: x @ torch.cat([m.v, m.w]).t(), v=drawn(3, 8), w=drawn(5, 8)),
        (4, 8),
        1,
    ),
    "weight norm": (lambda: weight_norm(nn.Linear(8, 6)), (4, 8), 1),
    "softmax of weights": (
        lambda: Wrapped(lambda m, x: x @ m.w.softmax(-1), w=drawn(8, 8)),
        (4, 8),
        1,
    ),
    "low rank": (
        lambda: Wrapped(
            lambda m, x: x @ (m.w + m.a @ m.b), w=drawn(8, 8), a=drawn(8, 2), b=drawn(2, 8)
        ),
        (4, 8),
        1,
    ),
    "sorted": (lambda: Wrapped(lambda m, x: x * m.w.sort()[0], w=drawn(8)), (4, 8), 1),
    "tied": (Tied, (4, 8), 2),
    "read in a branch": (lambda: Wrapped(branched, w=drawn(8)), (4, 8), 1),
    "state": (lambda: Wrapped(counted, b_count=torch.zeros(8), w=drawn(8)), (4, 8), 1),
    "returned": (
        lambda: Wrapped(lambda m, x: (m.w.exp(), x * m.w.exp().sum()), w=drawn(8)),
        (4, 8),
        1,
    ),
    "a view": (lambda: Wrapped(lambda m, x: x @ m.w.t()[:, ::2], w=drawn(6, 8)), (4, 8), 0),
    **{
        f"heads {derived}": (partial(Heads, derived), (2, 3, 16), len(derived))
        for derived in ("a", "b", "ac", "ab", "A", "Bc")
    },
    "expanded": (
        lambda: Wrapped(lambda m, x: x @ torch.outer(m.w, m.w), w=drawn(8)),
        (4, 8),
        0,
    ),
}


def other_weights(module: nn.Module) -> dict[str, torch.Tensor]:
    """A state_dict of other numbers; variances stay positive, and one tensor stays one."""
    drawn: dict[int, torch.Tensor] = {}
    found = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if tensor.is_floating_point():
            key = tensor.data_ptr()
            drawn.setdefault(key, torch.rand_like(tensor) + 0.5)
            found[name] = drawn[key].detach()
    return found


@pytest.mark.parametrize("name", CASES)
def test_answers_are_eagers_with_any_weights(name: str) -> None:
    torch.manual_seed(0)
    make, shape, count = CASES[name]
    module = make().eval()
    x = torch.randn(*shape)
    compiled = compile_all(module, (x,))
    for model in compiled.models.values():  # panels of weights are for processors alone
        derived = [one.name for one in model.manifest.derived]
        assert len([name for name in derived if not name.endswith("_panels")]) == count
    if not compiled.lowered.signature.updates:
        agree(compiled, (x,))
    others = other_weights(module)
    changed = copy.deepcopy(module)
    changed.load_state_dict(others, strict=False)
    for target, model in compiled.models.items():
        given = on_gpu(x) if target == GPU else x
        check(bound(model, others)(given), copy.deepcopy(changed)(x), target)
        check(bound(model, module.state_dict())(given), copy.deepcopy(module)(x), target)
        model.close()


def bound(model: Model, weights: Mapping[str, torch.Tensor]) -> Model:
    """The model with these weights."""
    model.bind_weights(weights, strict=False)
    return model


def check(found: Any, expected: Any, target: str) -> None:
    """Fail unless two results are close."""
    for ours, theirs in zip(tensors(found), tensors(expected), strict=True):
        limit = 2e-2 if theirs.dtype is torch.bfloat16 else 1e-4
        torch.testing.assert_close(ours.cpu(), theirs, rtol=limit, atol=limit, msg=target)


def test_a_part_of_the_weights_is_bound() -> None:
    torch.manual_seed(0)
    module = CASES["concatenation"][0]().eval()
    x = torch.randn(4, 8)
    compiled = compile_all(module, (x,))  # its folder has the weights that are read again
    for target, model in compiled.models.items():
        other, given = copy.deepcopy(module), on_gpu(x) if target == GPU else x
        known: dict[str, torch.Tensor] = {}
        for name in ("v", "w"):
            known[name] = getattr(other, name).data.normal_()
            if target == GPU and len(known) > 1:  # what no file has was freed after its use
                with pytest.raises(WeightError, match="'v' not given.* Give them too"):
                    model.bind_weights({name: known[name]}, strict=False)
            model.bind_weights(known if target == GPU else {name: known[name]}, strict=False)
            check(model(given), other(x), target)
        wrong = {"v": torch.ones(4, 8)}
        with pytest.raises(WeightError, match="'v' is float32"):
            model.bind_weights(wrong, strict=False)
        check(model(given), other(x), target)


class Projections(nn.Module):
    """Three products of one input, of many rows."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(64, 64) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.q(x).exp(), self.k(x).sin(), self.v(x).cos()


@pytest.mark.parametrize("targets", [(CPU,), (CPU, INTERPRETER)], ids=["alone", "shared"])
def test_panels_of_merged_products_are_bound_as_parts(targets: tuple[Target, ...]) -> None:
    """A package for processors alone has no other reader of the weights behind panels."""
    torch.manual_seed(0)
    module, x = Projections().eval(), torch.randn(17, 64)
    compiled = compile_all(module, (x,), targets=targets)
    agree(compiled, (x,))
    for target, model in compiled.models.items():
        other = copy.deepcopy(module)
        given = on_gpu(x) if target == GPU else x
        for name in ("k.weight", "v.bias"):
            tensor = other.get_parameter(name).data.normal_()
            check(bound(model, {name: tensor})(given), other(x), target)
