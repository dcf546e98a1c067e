"""Elements at places that data or dynamic sizes decide are read and written as in eager."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError, TraceError

J = torch.tensor([0, 2])
MASK = torch.tensor([True, False, True, False])


class Placed(nn.Module):
    """Statements on a copy ``y`` of the input of ``n`` columns, an integer ``i``, and values."""

    def __init__(self, statements: str) -> None:
        super().__init__()
        self.code = compile(statements, "statements", "exec")

    def forward(self, x: Tensor, i: Tensor) -> Any:
        names = {"y": x.clone(), "v": x.flatten() + 1, "n": x.shape[1], "i": i, "torch": torch}
        exec(self.code, names | {"J": J, "MASK": MASK}, names)
        return names["y"]


def check(packaged: Callable[..., Any], model: nn.Module, *given: Tensor) -> None:
    """The package gives what eager does."""
    found, expected = packaged(*given), model(*given)
    assert found.shape == expected.shape
    assert torch.equal(found, expected)


BESIDE = (
    *("y[i, J] = 8", "y[J, i] = 8", "y[i, :, J] = v[:2]", "y[J, :, i] = v[:4]", "y[i, MASK] = 8"),
    *("y[MASK, i] *= 2", "y = y[i, MASK]", "y = y[MASK, :, i]", "y[i, J] += 1", "y = y[i, :, J]"),
    *("y[None, i, J] = 8", "y[J, None, i] = v[:4]", "y[..., J, i] = 8", "y[i, [0, 2]] = v[:4]"),
    *("y = y[[0, 2], i]", "y[i, i, J] = v[None, None, :2]", "y = y[J, i, J]", "y[i, 1:3, J] = 2"),
    *("y[i, J[:, None], J] = v[:2]", "y[i.int(), J] = 8", "y[1, i, J] = 3", "y[:, i][J] = 9"),
)


@pytest.mark.parametrize("statements", BESIDE)
def test_an_integer_beside_indices_and_masks(statements: str) -> None:
    model, x = Placed(statements), torch.randn(4, 4, 4)
    packaged = aotpack.compile(model, (x, torch.tensor(1)), target="interpreter")
    for number in range(-4, 4):
        check(packaged, model, x + number, torch.tensor(number))


def test_values_of_another_type_beside_indices_are_refused_as_in_eager() -> None:
    model, given = Placed("y[i, J] = v[:2].long()"), (torch.randn(4, 4), torch.tensor(1))
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        model(*given)
    with pytest.raises(AotpackError, match="dtypes match"):
        aotpack.compile(model, given, target="interpreter")


CHANGED = (
    *("y[i] += 1", "y[i][1] = 5", "y[i].add_(1)", "y[i].copy_(y[0])", "y[i, 1:3].zero_()"),
    *("y[:, i].mul_(y[i])", "a = y[i]; y[i] += 1; y[0] += a", "y[i] *= y[i - 0]"),
)


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("statements", CHANGED)
def test_what_an_integer_chooses_is_changed_in_place(statements: str, target: str) -> None:
    model, x = Placed(statements), torch.randn(4, 4)
    packaged = aotpack.compile(model, (x, torch.tensor(1)), target=target)
    for number in range(-4, 4):
        check(packaged, model, x, torch.tensor(number))


@pytest.mark.parametrize("number", [4, -5])
def test_a_change_beyond_the_elements_is_found_and_writes_nowhere(number: int) -> None:
    model, x = Placed("y[i].add_(1)"), torch.randn(4, 4)
    given = x, torch.tensor(number)
    with pytest.raises(IndexError):
        model(*given)
    checked = aotpack.compile(model, (x, torch.tensor(1)), target="cpu", check_indices=True)
    with pytest.raises(AotpackError, match="at least -4 and less than 4"):
        checked(*given)
    packaged = aotpack.compile(model, (x, torch.tensor(1)), target="cpu")
    assert torch.equal(packaged(*given), x)


COUNTED = (
    *("y[:, n-1] = 0", "y[n//2, :] = v[:n]", "y[..., n-1] = v[:n]", "y[..., n-1, :] = 2"),
    *("y[n-1, None] = 4", "y[n//2, 0] += 1", "y[n-1, i] = 5", "y[0, -n] = 1", "y[n-1, n//2] = n"),
    *("y[i, n-1] += y[0, 0]", "y[n//2, torch.arange(n)] = v[:n]", "y[n-1, y[0] > 0] = 3"),
    *("y[1:, n-1] = v[1:n]", "y[:n//2, n-1] = v[:n//2]", "y[n//2, -1] = y[n-1, 0].long()"),
    *("y[None, n-1] = v[:n]", "y[:, n-1] = v[None, None, :n]", "y[i, torch.arange(n)] = 8"),
    *("y[torch.arange(n), i] = v[:n]", "y[i, n//2:] = 1", "y[n-1, ...] = y[i]", "y[i] += 1"),
    *("y[-1-n//2, 0] = 9", "y[n-2, 0] = 9", "v[v.shape[0]//2] = 3; y = v"),
)


def squares(least: int) -> Iterator[tuple[Tensor, Tensor]]:
    """A square of each size, with places in it."""
    for n in range(least, 13):
        for place in {0, n - 1, -n}:
            yield torch.randn(n, n), torch.tensor(place)


def packaged_from(least: int, model: nn.Module) -> Callable[..., Any]:
    n = Dim("n", min=least, max=12)
    given = torch.randn(6, 6), torch.tensor(1)
    return aotpack.compile(model, given, dynamic_shapes=({0: n, 1: n}, None), target="interpreter")


@pytest.mark.parametrize("statements", COUNTED)
def test_a_number_of_a_dynamic_size_in_a_key(statements: str) -> None:
    model = Placed(statements)
    packaged = packaged_from(1, model)
    for given in squares(1):
        check(packaged, model, *given)


@pytest.mark.parametrize("key", ["n-3, 0", "2-n, 0", "n//2+1, 0", "n-3, i"])
def test_a_number_beyond_a_size_is_refused(key: str) -> None:
    model = Placed(f"y[{key}] = 9")
    with pytest.raises(IndexError):
        model(torch.randn(1, 1), torch.tensor(0))
    with pytest.raises(TraceError, match=r"index -?\d out of range .* where n_=1"):
        packaged_from(1, model)
    packaged = packaged_from(3, model)
    for given in squares(3):
        check(packaged, model, *given)


def body(k: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return k + 1, y.index_put((k,), y[k - 1] + y[k, J].sum())


def written_body(k: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone()
    y[k] = y[k - 1] + y[k]
    return k + 1, y


def changed_body(k: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone()
    y[k].add_(1)
    return k + 1, y


class Looping(nn.Module):
    """Bodies of a branch in a loop, and in eager's place of them."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor, i: Tensor) -> Any:
        if not torch.compiler.is_exporting():
            k, y = i, x
            while k < 4:
                k, y = self.body(k, y)
            return y
        given = i.clone(), x.clone()
        y: Tensor = while_loop(lambda k, y: k < 4, self.body, given)[1]
        return y


class Branching(Looping):
    def forward(self, x: Tensor, i: Tensor) -> Any:
        if not torch.compiler.is_exporting():
            return self.body(i, x)[1] if x.sum() > 0 else x * 2
        return torch.cond(x.sum() > 0, lambda x, i: self.body(i, x)[1], lambda x, i: x * 2, (x, i))


@pytest.mark.parametrize("kind", [Looping, Branching])
def test_bodies_read_at_an_integer(kind: type[Looping]) -> None:
    model, x = kind(body), torch.randint(0, 9, (4, 6)).double()
    packaged = aotpack.compile(model, (x, torch.tensor(1)), target="interpreter")
    for number in range(-3, 4):
        check(packaged, model, x + 1, torch.tensor(number))


def read_later(k: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone()
    row = y[k].unsqueeze(0)
    y[0] = 1
    return k + 1, y + row


def viewed(k: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone()
    row = y[k].reshape(2, 3)
    y[0] = 1
    return k + 1, y + row.sum()


def chosen_of_a_view(k: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone()
    number = y.flatten()[k]
    y[0] = 1
    return k + 1, y + number


def read_before(k: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone()
    row = y[k].unsqueeze(0) + 1
    y[0] = 1
    y[k, 1:] = y[k - 1, 1:] - y[k, 2]
    y[k - 1] = y[k - 1] + 2
    return k + 1, y + row


@pytest.mark.parametrize("kind", [Looping, Branching])
@pytest.mark.parametrize("written", [written_body, read_before])
def test_bodies_write_at_an_integer(kind: type[Looping], written: Any) -> None:
    model, x = kind(written), torch.randint(0, 9, (4, 6)).double()
    packaged = aotpack.compile(model, (x, torch.tensor(1)), target="interpreter")
    for number in range(-3, 4):
        check(packaged, model, x + 1, torch.tensor(number))


@pytest.mark.parametrize("kind", [Looping, Branching])
@pytest.mark.parametrize("changed", [changed_body, read_later, viewed, chosen_of_a_view])
def test_bodies_that_change_what_is_chosen_there_are_refused(
    kind: type[Looping], changed: Any
) -> None:
    given = torch.randn(4, 6), torch.tensor(1)
    told = r"aten.\w+_\.\w+ changes a tensor in place inside .* y\[k\] \+ 1\n  at test_places.py"
    with pytest.raises(AotpackError, match=told):
        aotpack.compile(kind(changed), given, target="interpreter")
