"""Lookup of lowerings, and binding of arguments."""

import pytest

from aotpack.ir.symbolic.integers import Int
from aotpack.lower.registry import CannotLower, bind, handler_of, lowering


def accepts(self: object, dim: int = 0, *, keepdim: bool = False) -> None:
    """Stands for a lowering."""


@pytest.mark.row("S:H7")
def test_constant_sizes_arrive_as_numbers() -> None:
    bound = bind(accepts, ("x", Int.of(3)), {"keepdim": True}, leading=0)
    assert bound.args == ("x", 3)
    assert bound.kwargs == {"keepdim": True}


@pytest.mark.row("S:H24")
def test_placement_is_dropped() -> None:
    assert bind(accepts, ("x",), {"memory_format": None}, leading=0).kwargs == {}


@pytest.mark.row("S:H7", "S:H9")
def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(CannotLower, match="arguments are not accepted: got an unexpected keyword"):
        bind(accepts, ("x",), {"out": None}, leading=0)


@pytest.mark.row("S:H12")
def test_an_unknown_overload_names_the_known_ones() -> None:
    with pytest.raises(CannotLower, match=r"overload has no lowering; aten.amax.default has"):
        handler_of("aten.amax.out")


def test_a_second_lowering_is_refused() -> None:
    with pytest.raises(ValueError, match="two lowerings are registered for aten.amax.default"):
        lowering("aten.amax.default")(accepts)
