"""What only export raises, and the model catches, is refused; what eager raises too is not."""

import contextlib
import numbers
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError
from tests.e2e.models import Function

X = torch.rand(6, 4)
ROWS = ({0: Dim("n", min=1, max=32)},)
SCALE = {8: 2.0, 20: 3.0}


def clamped(x: Tensor) -> Tensor:
    try:
        if (x < 0).any():
            x = x.clamp(min=0)
    except Exception:
        pass
    return x.sqrt()


def by_a_number(x: Tensor) -> Tensor:
    with contextlib.suppress(RuntimeError):
        if int(x.sum()) > 100:
            return x * 2
    return x * 1


def scaled(x: Tensor) -> Tensor:
    try:
        scale = float(x.mean())
    except RuntimeError:
        scale = 0.5
    return x * scale if scale < 0.1 else x * 1


def returned_at_last(x: Tensor) -> Tensor:
    y = x * 1
    try:
        if x.sum() > 100:
            y = x * 2
    finally:
        return y  # noqa: B012


def compared(x: Tensor) -> Tensor:
    try:
        return x * 2 if torch.equal(x, x * 0) else x * 1
    except Exception:
        return x * 1


def listed(x: Tensor) -> Tensor:
    try:
        return x * 2 if x[0].tolist()[0] > 100 else x * 1
    except Exception:
        return x * 1


def through_numpy(x: Tensor) -> Tensor:
    try:
        return torch.from_numpy(x.numpy().copy()) * (2 if x.numpy().sum() > 100 else 1)
    except Exception:
        return x * 1


def by_a_table(x: Tensor) -> Tensor:
    try:
        scale = SCALE[x.shape[0]]
    except (KeyError, TypeError):
        scale = 1.0
    return x * scale


@pytest.mark.parametrize(
    "forward",
    [clamped, by_a_number, scaled, returned_at_last, compared, listed, through_numpy],
    ids=lambda one: one.__name__,
)
@pytest.mark.parametrize("shapes", [None, ROWS], ids=["fixed", "dynamic"])
def test_an_error_of_export_that_the_model_catches_is_refused(forward: Any, shapes: Any) -> None:
    words = r"\n  at test_caught.py:\d+: (.|\n)*catches this error, which eager does not raise"
    with pytest.raises(TraceError, match=words):
        aotpack.compile(Function(forward, 1), (X,), dynamic_shapes=shapes, target="interpreter")


def test_a_table_by_a_dynamic_size_is_refused() -> None:
    with pytest.raises(TraceError, match=r"by_a_table|SCALE\[(.|\n)*catches this error"):
        aotpack.compile(Function(by_a_table, 1), (X,), dynamic_shapes=ROWS, target="interpreter")
    model = aotpack.compile(Function(by_a_table, 1), (X,), target="interpreter")
    assert torch.equal(model(X), X)


def by_kind(x: Tensor) -> Tensor:
    n = x.shape[0]
    return x * 2 if isinstance(n, int) and n > 7 else x * 1


def by_abstract_kind(x: Tensor) -> Tensor:
    n = x.shape[0]
    return x * 2 if isinstance(n, (str, numbers.Integral)) and n == 8 else x * 1


@pytest.mark.parametrize("forward", [by_kind, by_abstract_kind], ids=lambda one: one.__name__)
def test_sizes_are_integers_to_the_model(forward: Any) -> None:
    with pytest.raises(TraceError, match="right only for some of the sizes"):
        aotpack.compile(Function(forward, 1), (X,), dynamic_shapes=ROWS, target="interpreter")


def test_a_size_is_no_float_and_isinstance_is_left_as_it_was() -> None:
    def forward(x: Tensor) -> Tensor:
        n = x.shape[0]
        assert isinstance(n, int) and not isinstance(n, (float, bool))
        return x * n if isinstance(n * 0.5, float) else x

    model = aotpack.compile(Function(forward, 1), (X,), dynamic_shapes=ROWS, target="interpreter")
    for count in (1, 9, 32):
        x = torch.rand(count, 4)
        torch.testing.assert_close(model(x), forward(x))
    assert "isinstance" not in globals()


class Falling(nn.Module):
    """What eager raises too is caught by both."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            x = x.view(7, -1)
        except RuntimeError:
            x = x + 1
        try:
            return {1: x}[2]
        except KeyError:
            return x * 2


def test_an_error_that_eager_raises_too_is_caught() -> None:
    model = aotpack.compile(Falling(), (X,), target="interpreter")
    assert torch.equal(model(X), Falling()(X))


class Folding(nn.Module):
    """Rows of 7, or what else is done with other sizes."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            y = x.view(-1, 7)
        except RuntimeError:
            y = x.reshape(-1, 1) * 2
        return y * 1


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (14, r"is a multiple of 7, as view asks(.|\n)*Declare 7\*Dim\('n', min=2"),
        (15, r"\(n % 7\) != 0(.|\n)*No Dim declares sizes that are no multiples"),
    ],
)
def test_a_way_for_some_sizes_is_told_as_that_of_the_example(size: int, words: str) -> None:
    sizes = ({0: Dim("n", min=1, max=64)},)
    with pytest.raises(TraceError, match=words) as raised:
        aotpack.compile(Folding(), (torch.rand(size),), dynamic_shapes=sizes, target="interpreter")
    assert ("Declare" in str(raised.value)) == (size % 7 == 0)


def test_declared_multiples_take_the_way_of_the_try() -> None:
    sizes = ({0: 7 * Dim("n", min=2, max=9)},)
    model = aotpack.compile(
        Folding(), (torch.rand(14),), dynamic_shapes=sizes, target="interpreter"
    )
    for size in (14, 63):
        x = torch.rand(size)
        assert torch.equal(model(x), Folding()(x))
