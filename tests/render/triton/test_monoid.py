"""Reductions in Triton: functions under the names that kernels call, identities as literals."""

import ast

import pytest
from jinja2 import UndefinedError

from aotpack.ir.dtypes import DType
from aotpack.render.triton.contexts import SimpleContext
from aotpack.render.triton.monoid import DeviceFunction, TritonMonoid
from aotpack.render.triton.monoids import TEMPLATE, TRITON_MONOIDS


def functions(monoid: TritonMonoid) -> list[DeviceFunction]:
    """The functions a monoid has."""
    found = (monoid.combine, monoid.group, monoid.merge, monoid.across)
    return [function for function in found if function is not None]


def called(text: str) -> set[str]:
    """The plain names that a function calls or passes on."""
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("name", TRITON_MONOIDS)
def test_sources_define_what_they_are_called_and_call_what_they_say(name: str) -> None:
    for one in functions(TRITON_MONOIDS[name]):
        (function,) = ast.parse(one.text).body
        assert isinstance(function, ast.FunctionDef) and function.name == one.name
        assert one.name.endswith(f"_{name}")
        combined = {word for word in called(one.text) if word.startswith("combine_")}
        assert combined == {TRITON_MONOIDS[kind].combine.name for kind in one.calls}


@pytest.mark.parametrize("name", TRITON_MONOIDS)
def test_combinations_take_two_of_each_state(name: str) -> None:
    monoid = TRITON_MONOIDS[name]
    count = len(monoid.lift)
    (function,) = ast.parse(monoid.combine.text).body
    assert isinstance(function, ast.FunctionDef)
    assert len(function.args.args) == 2 * count == 2 * len(monoid.meaning.states)


def test_identities_have_the_type_of_the_elements() -> None:
    assert TRITON_MONOIDS["max"].identity(DType.FLOAT32) == ('float("-inf")',)
    assert TRITON_MONOIDS["max"].identity(DType.INT8) == ("-128",)
    assert TRITON_MONOIDS["sum"].identity(DType.FLOAT32) != TRITON_MONOIDS["prod"].identity(
        DType.FLOAT32
    )


def test_a_function_is_a_macro_and_its_context() -> None:
    function = DeviceFunction("combine_f", TEMPLATE, "combine", SimpleContext("f", "a + b"))
    assert function.text == (
        f"# template: {TEMPLATE}\n@triton.jit\ndef combine_f(a, b):\n    return a + b\n"
    )


def test_a_context_without_what_a_macro_prints_is_refused() -> None:
    with pytest.raises(UndefinedError):
        _ = DeviceFunction("combine_f", TEMPLATE, "combine", object()).text
