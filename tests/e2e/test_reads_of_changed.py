"""Reads by a 0-d tensor index, of memory that is changed in place: as eager, or refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError
from aotpack.runtime import AssertionFailed
from aotpack.trace.operators.returned_views import copied_results
from tests.e2e.models import Function

X = torch.arange(1.0, 13.0).view(3, 4)
PLACES = (0, 1, 2, -1, -3)
AT = torch.tensor(1)


def row(y: Tensor, i: Tensor) -> Tensor:
    y[0] = 1
    return y[i]


def column(y: Tensor, i: Tensor) -> Tensor:
    y[:, 0] = 1
    return y[:, i]


def last_dim(y: Tensor, i: Tensor) -> Tensor:
    y[:, 3] = 1
    return y.select(-1, i)


def rest_of_row(y: Tensor, i: Tensor) -> Tensor:
    y[:, 2] = 1
    return y[i, 1:]


def part_of_column(y: Tensor, i: Tensor) -> Tensor:
    y[:, 0] = 1
    return y[1:, i] * 2


def element(y: Tensor, i: Tensor) -> Tensor:
    y[1] = 1
    return y[i, i]


def of_a_view(y: Tensor, i: Tensor) -> Tensor:
    t = y.t()
    y[0].mul_(3)
    return t[i] + 1


def number(y: Tensor, i: Tensor) -> Tensor:
    n = i.item()
    y[0] = 1
    return y[n]


def number_of_a_changed_tensor(y: Tensor, i: Tensor) -> Tensor:
    place = i.clone()
    n = place.item()
    place.zero_()
    y[0].add_(y[2])
    return y[n] - y[place]


def computed_number(y: Tensor, i: Tensor) -> Tensor:
    y[0] = 1
    return y[i.item() // 2]


def between_changes(y: Tensor, i: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y[0] = 1
    before = y[i] + 1
    y[1] = 3
    return before, y[i], y


READS = (
    *(row, column, last_dim, rest_of_row, part_of_column, element, of_a_view),
    *(number, number_of_a_changed_tensor, computed_number, between_changes),
)


def of_copy(read: Callable[[Tensor, Tensor], Any]) -> nn.Module:
    return Function(lambda x, i: read(x.clone(), i), 2)


def compiled(model: nn.Module, *args: Tensor, **options: Any) -> Any:
    return aotpack.compile(model, args, target="interpreter", **options)


def check(model: Any, reference: nn.Module, places: tuple[int, ...], dtype: torch.dtype) -> None:
    """Results and inputs after the call are those of eager, for each place."""
    for place in places:
        i = torch.tensor(place, dtype=dtype)
        given, expected = X.clone(), X.clone()
        torch.testing.assert_close(model(given, i), reference(expected, i), rtol=0, atol=0)
        torch.testing.assert_close(given, expected, rtol=0, atol=0)


@pytest.mark.parametrize("read", READS, ids=lambda read: read.__name__)
def test_a_read_of_a_changed_local_is_that_of_eager(read):
    check(compiled(of_copy(read), X, AT), of_copy(read), PLACES, torch.int64)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32], ids=str)
def test_places_may_be_of_each_type_of_integers(dtype):
    check(compiled(of_copy(column), X, AT.to(dtype)), of_copy(column), PLACES, dtype)


def test_a_read_of_a_changed_input_is_that_of_eager():
    check(compiled(Function(row, 2), X.clone(), AT), Function(row, 2), PLACES, torch.int64)


def test_a_read_of_a_changed_tensor_of_dynamic_length_is_that_of_eager():
    model = compiled(of_copy(row), X, AT, dynamic_shapes={"x": {0: Dim("n", min=2)}, "y": None})
    check(model, of_copy(row), PLACES, torch.int64)
    longer = torch.cat([X, X + 20])
    assert torch.equal(model(longer, torch.tensor(-2)), longer[4])


def test_a_loaded_program_reads_as_eager(tmp_path):
    torch.export.save(torch.export.export(of_copy(column), (X, AT)), tmp_path / "m.pt2")
    program = torch.export.load(tmp_path / "m.pt2")
    model = aotpack.compile(program, target="interpreter")
    check(model, of_copy(column), PLACES, torch.int64)


class Ring(nn.Module):
    """Rows that fade, of which each call reads the next."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ring", torch.arange(12.0).view(4, 3))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        self.ring.mul_(0.5).add_(x[0])
        return self.ring[self.count % 4]


def test_a_read_of_a_changed_buffer_is_that_of_eager():
    model, reference = compiled(Ring(), torch.ones(2, 3)), Ring()
    for call in range(6):
        x = torch.full((2, 3), float(call))
        assert torch.equal(model(x), reference(x))


@pytest.mark.parametrize("place", [3, -4])
@pytest.mark.parametrize("read", [row, lambda y, i: y[i]], ids=["changed", "unchanged"])
def test_checked_builds_raise_outside_of_the_tensor(read, place):
    model = compiled(of_copy(read), X, AT, check_indices=True)
    assert torch.equal(model(X, torch.tensor(2)), X[2])
    with pytest.raises(AssertionFailed, match="at least -3 and less than 3"):
        model(X, torch.tensor(place))


def returned_twice(y: Tensor, i: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    y[0] = 1
    view = y[i]
    y.mul_(2)
    return view, {"again": view, "part": view[1:], "other": view + 1}


def by_strides(y: Tensor, i: Tensor) -> Tensor:
    y[0] = 1
    view = y[i]
    y[1] = 2
    return view.as_strided((2,), (1,), 0)


def test_strides_of_the_view_are_refused():
    with pytest.raises(AotpackError, match=r"test_reads_of_changed\.py:\d+: .*strided"):
        compiled(of_copy(by_strides), X, AT)


def written(y: Tensor, i: Tensor) -> Tensor:
    y[0] = 1
    y[i].mul_(2)
    return y


def written_later(y: Tensor, i: Tensor) -> Tensor:
    y[0] = 1
    part = y[i][1:]
    part.mul_(2)
    return y[i]


def both_written(y: Tensor, i: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    row = y[i]
    part = row.view(2, 2)[1:]
    y.add_(1)
    part.mul_(3)
    row.t().add_(row)
    return y, row, part + 1


def one_of_two_written(y: Tensor, i: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    row, same = y[i], y[i + 0]
    row.mul_(2)
    return y, row + 1, same + 1


def copied_to(y: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
    row = y[i]
    row.copy_(y[0])
    y[0] = 9
    return y, row


@pytest.mark.parametrize(
    "write",
    [written, written_later, both_written, one_of_two_written, copied_to],
    ids=lambda write: write.__name__,
)
def test_a_write_through_the_view_is_that_of_eager(write):
    check(compiled(of_copy(write), X, AT), of_copy(write), PLACES, torch.int64)


def changed_since(y: Tensor, i: Tensor) -> Tensor:
    y[0] = 1
    view = y[i]
    y.mul_(2)
    return view


def first_changed_since(y: Tensor, i: Tensor) -> Tensor:
    view = y[i].view(2, 2)
    y.t()[0] = 1
    return view + 1


@pytest.mark.parametrize(
    "read",
    [changed_since, first_changed_since, returned_twice],
    ids=lambda read: read.__name__,
)
def test_a_view_shows_what_is_changed_since(read):
    check(compiled(of_copy(read), X, AT), of_copy(read), PLACES, torch.int64)


def test_the_exported_program_is_as_before():
    program = torch.export.export(of_copy(returned_twice), (X, AT))
    before = str(program)
    with copied_results(program):
        assert str(program.graph).count("aten.clone.default") == 3
    assert str(program) == before
