"""Reductions in Triton: functions under the names that kernels call, identities as literals."""

import ast

import pytest

from aotpack.ir.dtypes import DType
from aotpack.render.triton.monoid import TritonMonoid, jit_function
from aotpack.render.triton.monoids import TRITON_MONOIDS


def functions(monoid: TritonMonoid) -> dict[str, str]:
    """The sources a monoid has, by the names it gives them."""
    found = {
        monoid.combine_name: monoid.combine,
        monoid.group_name: monoid.group,
        monoid.merge_name: monoid.merge,
        monoid.across_name: monoid.across,
    }
    return {name: text for name, text in found.items() if text}


def called(text: str) -> set[str]:
    """The plain names that a function calls or passes on."""
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("name", TRITON_MONOIDS)
def test_sources_define_what_they_are_called_and_call_what_the_monoid_says(name: str) -> None:
    monoid = TRITON_MONOIDS[name]
    known = {monoid.combine_name, *(TRITON_MONOIDS[one].combine_name for one in monoid.uses)}
    for own, text in functions(monoid).items():
        (function,) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef) and function.name == own
        combined = {one for one in called(text) if one.startswith("combine_")}
        assert combined <= known


@pytest.mark.parametrize("name", TRITON_MONOIDS)
def test_combinations_take_two_of_each_state(name: str) -> None:
    monoid = TRITON_MONOIDS[name]
    count = len(monoid.lift)
    (function,) = ast.parse(monoid.combine).body
    assert isinstance(function, ast.FunctionDef)
    assert len(function.args.args) == 2 * count == 2 * len(monoid.meaning.states)


def test_identities_have_the_type_of_the_elements() -> None:
    assert TRITON_MONOIDS["max"].identity(DType.FLOAT32) == ('float("-inf")',)
    assert TRITON_MONOIDS["max"].identity(DType.INT8) == ("-128",)
    assert TRITON_MONOIDS["sum"].identity(DType.FLOAT32) != TRITON_MONOIDS["prod"].identity(
        DType.FLOAT32
    )


def test_a_function_is_indented_and_ends_a_line() -> None:
    assert jit_function("f", "a, b", "c = a", "return c") == (
        "@triton.jit\ndef f(a, b):\n    c = a\n    return c\n"
    )
