"""A scope is what was given for it, else as around; it ends as it began, whatever happens in it."""

import pytest

from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.regions import Region
from aotpack.render.emit.scope import Scoped

X = Axis("x", Int.of(4))
ROOT, LOOP = Region(frozenset()), Region(frozenset((X,)))
FRAME, OTHER = Frame({X: "x"}, {}, ()), Frame({X: "rest"}, {}, ())


def test_what_is_not_given_is_as_around() -> None:
    scoped = Scoped(ROOT, FRAME)
    with scoped.at(ROOT, cache={"x": "first"}, made_for=frozenset((X,))):
        around = scoped.scope
        with scoped.at(LOOP, frame=OTHER):
            assert (scoped.region, scoped.frame) == (LOOP, OTHER)
            assert (scoped.scope.cache, scoped.scope.made_for) == (around.cache, around.made_for)
        assert scoped.scope is around


def test_what_is_given_as_nothing_is_nothing() -> None:
    scoped = Scoped(ROOT, FRAME)
    with scoped.at(ROOT, cache={"x": "first"}), scoped.at(LOOP, cache={}):
        assert scoped.scope.cache == {}


def test_a_scope_ends_where_it_fails() -> None:
    scoped = Scoped(ROOT, FRAME)
    with pytest.raises(KeyError), scoped.at(LOOP, frame=OTHER):
        raise KeyError
    assert (scoped.region, scoped.frame) == (ROOT, FRAME)


def test_a_scope_is_entered_by_a_with_statement_alone() -> None:
    scoped = Scoped(ROOT, FRAME)
    with pytest.raises(AttributeError):
        scoped.region = LOOP  # type: ignore[misc]
    scoped.at(LOOP)
    assert scoped.region is ROOT
