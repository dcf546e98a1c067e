"""Inputs are read in the memory order of the example; results have the strides that eager gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan
from torch.export import Dim
from torch.nn import functional as F

from aotpack.errors import AotpackError
from aotpack.pipeline import compile

from .oracle import compile_all

LAST, LAST_3D = torch.channels_last, torch.channels_last_3d
Tensors = Any


class Model(nn.Module):
    """A function of a tensor, with weights of convolutions."""

    def __init__(self, function: Callable[..., Tensors]) -> None:
        super().__init__()
        self.function = function
        generator = torch.Generator().manual_seed(0)
        for k in (2, 3):
            weight = torch.randn((4, 16, *(3,) * k), generator=generator) / 10
            self.register_parameter(f"w{k}", nn.Parameter(weight))

    def forward(self, x: torch.Tensor) -> Tensors:
        return self.function(self, x)


def images(m: Model, x: torch.Tensor) -> Tensors:
    y = F.conv2d(x, m.w2, padding=1)
    return y, y.relu().permute(0, 2, 3, 1), x + 1, torch.cat([y, x], 1), y.mean(1)


def volumes(m: Model, x: torch.Tensor) -> Tensors:
    return F.conv3d(x, m.w3, padding=1), x.sum(1)


def views(m: Model, x: torch.Tensor) -> Tensors:
    return x, x.transpose(0, 1), x * 2, x.sum(0), x.contiguous()


def changed(m: Model, x: torch.Tensor) -> Tensors:
    x.mul_(2)
    return x.sum(-1)


def written(m: Model, x: torch.Tensor) -> Tensors:
    x[:, 1] = 7
    return x.index_add(1, torch.tensor([0, 0]), x[:, :2])


def chosen(m: Model, x: torch.Tensor) -> Tensors:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


def returned_and_read_whole(m: Model, x: torch.Tensor) -> Tensors:
    """Whole tensors that go to branches and loops are also results, in another order."""
    y, chosen = (x * 2).transpose(0, 1), x.sum() > 0
    branch = torch.cond(chosen, lambda y: y + 1, lambda y: y * 2, (y,))
    z = F.relu(x).transpose(1, 2)
    rows = scan(lambda carry, row: (carry + row, carry * row), torch.zeros_like(z[0]), z, dim=0)[1]
    w = x.transpose(0, 2) - 1
    steps = while_loop(lambda n, a: n < 2, lambda n, a: (n + 1, a + w), (torch.tensor(0), w * 0))
    return branch, y, rows, z, steps[1], w


def changed_and_read_whole(m: Model, x: torch.Tensor) -> Tensors:
    x.mul_(2)
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


def scattered_twice(m: Model, x: torch.Tensor) -> Tensors:
    """Two scatters of one launch; each overwrites a base of its own."""
    y, places = F.relu(x.transpose(0, 1)), torch.tensor([0, 2])
    return y.index_put((places,), torch.ones(2, 2, 4)), y.index_fill(0, places, 2.0)


def permuted(*shape: int, order: tuple[int, ...]) -> torch.Tensor:
    """A tensor whose dimensions lie in an order, outermost first."""
    rows = torch.randn([shape[dim] for dim in order])
    return rows.permute([order.index(dim) for dim in range(len(order))])


IMAGE = torch.randn(2, 16, 5, 4).to(memory_format=LAST)
BATCH = {"x": {0: Dim("b", min=1, max=8), 2: Dim("h", min=1, max=64)}}
CASES = {
    "images": (images, IMAGE, None),
    "one_image": (images, IMAGE[:1], None),
    "sizes": (images, IMAGE, BATCH),
    "volumes": (volumes, torch.randn(1, 16, 2, 3, 4).to(memory_format=LAST_3D), None),
    "columns": (views, torch.randn(4, 3).t(), None),
    "turned": (views, permuted(2, 3, 4, 5, order=(3, 1, 0, 2)), None),
    "flat": (views, torch.randn(2, 1, 3, 4).to(memory_format=LAST), None),
    "changed": (changed, permuted(2, 3, 4, order=(1, 2, 0)), None),
    "written": (written, permuted(2, 3, 4, order=(2, 0, 1)), None),
    "branch": (chosen, permuted(2, 3, 4, order=(0, 2, 1)), None),
    "whole": (returned_and_read_whole, permuted(2, 3, 4, order=(0, 2, 1)), None),
    "changed_whole": (changed_and_read_whole, permuted(2, 3, 4, order=(0, 2, 1)), None),
    "scattered": (scattered_twice, torch.randn(2, 3, 4), None),
}


def same(found: Any, wanted: Any) -> None:
    """Equal elements, and strides where a dimension has several."""
    for one, other in zip(listed(found), listed(wanted), strict=True):
        made = torch.from_numpy(one) if isinstance(one, np.ndarray) else one
        torch.testing.assert_close(made, other, rtol=1e-4, atol=1e-4)
        steps = [
            [step for size, step in zip(t.shape, t.stride(), strict=True) if size > 1]
            for t in (made, other)
        ]
        assert steps[0] == steps[1]


def listed(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", CASES)
def test_orders_are_kept(name: str) -> None:
    """In C and interpreted, of one build."""
    function, example, sizes = CASES[name]
    model = Model(function).eval()
    packaged = compile_all(model, (example.clone(),), dynamic_shapes=sizes).models
    assert len(packaged) == 2
    for one in packaged.values():
        check_orders(one, model, example, is_dynamic=bool(sizes))


def check_orders(
    packaged: Callable[..., Any], model: Model, example: torch.Tensor, *, is_dynamic: bool
) -> None:
    """Inputs of all orders and libraries give what the model gives, in its strides."""
    is_changed = model.function in (changed, written, changed_and_read_whole)
    given = [example.clone(), example.clone().numpy()]
    if not is_changed:
        rows = example.contiguous()
        given += [rows, rows.numpy(), example.half().float(), example.numpy()[..., ::-1]]
    if is_dynamic:
        given.append(torch.randn(3, 16, 7, 4).to(memory_format=LAST))
    for one in given:
        mine = torch.from_numpy(np.array(one, order="K")) if isinstance(one, np.ndarray) else one
        mine = permuted_like(mine, example)
        with torch.no_grad():
            wanted = model(mine)
        same(packaged(one), wanted)
        if is_changed:
            same(one, mine)


def permuted_like(tensor: torch.Tensor, example: torch.Tensor) -> torch.Tensor:
    """A copy with the dimensions in the memory order of the example."""
    order = sorted(range(example.dim()), key=lambda dim: (-example.stride(dim), dim))
    rows = tensor.permute(order).clone(memory_format=torch.contiguous_format)
    return rows.permute([order.index(dim) for dim in range(len(order))])


class Lent:
    """A tensor of another library, which no one can convert."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def test_other_orders_are_refused() -> None:
    packaged = compile(Model(images).eval(), (IMAGE,), target="cpu")
    with torch.no_grad():
        wanted = Model(images)(IMAGE)
    same(tuple(torch.from_dlpack(one) for one in packaged(Lent(IMAGE))), wanted)
    for wrong in (Lent(IMAGE.contiguous()), IMAGE.permute(0, 1, 3, 2), IMAGE.expand(2, 16, 5, 4)):
        if isinstance(wrong, torch.Tensor) and wrong.stride() == IMAGE.stride():
            continue
        with pytest.raises(AotpackError, match=r"'x' (lies in another|has size)"):
            packaged(wrong)
    wide = torch.randn(2, 32, 5, 4).to(memory_format=LAST)
    with pytest.raises(AotpackError, match=r"'x' lies in another order.*\.permute\(0, 2, 3, 1\)"):
        packaged(wide[:, ::2])
    assert "x: float32[2, 16, 5, 4] in order 0, 2, 3, 1" in str(packaged.signature)


def test_a_changed_argument_is_not_copied() -> None:
    packaged = compile(Model(changed).eval(), (CASES["changed"][1].clone(),), target="cpu")
    for wrong in (torch.randn(2, 3, 4), np.zeros((2, 3, 4), np.float32)):
        with pytest.raises(AotpackError, match="'x' (lies in another order|is not contiguous)"):
            packaged(wrong)


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


def test_a_model_built_for_rows_names_channels_last_memory():
    model = compile(Doubled(), (torch.ones(2, 3, 4, 4),), target="cpu")
    x = torch.ones(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    with pytest.raises(AotpackError, match="x' lies in channels-last memory; .* or build with"):
        model(x)
    with pytest.raises(AotpackError, match=r"x' is not contiguous; .* Call .contiguous\(\)\.$"):
        model(torch.ones(4, 4, 3, 2).permute(3, 2, 0, 1))
