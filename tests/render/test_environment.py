"""The one Jinja environment: a template gets one context and a missing name is an error."""

import sys
from dataclasses import dataclass

import pytest
from jinja2 import StrictUndefined, TemplateNotFound, UndefinedError

from aotpack.errors import AotpackError
from aotpack.render.contexts import PartContext, PlanContext, WrapperContext
from aotpack.render.environment import environment, render_function, render_template


@dataclass(frozen=True, slots=True)
class Titled:
    title: str


def test_renders_the_context() -> None:
    plans = (PlanContext("", PartContext("", (), ())),)
    context = WrapperContext("demo: 0 launches", ("Plan",), ("b",), ("(b,)",), plans)
    text = render_template("wrapper.py.jinja", context)
    assert text.startswith('# template: wrapper.py.jinja\n"""demo: 0 launches."""\n')
    assert "def plan(arch: int, b: int) -> Plan:" in text


def test_refuses_what_the_context_lacks() -> None:
    assert environment().undefined is StrictUndefined
    with pytest.raises(UndefinedError, match="has no attribute"):
        render_template("wrapper.py.jinja", Titled("demo"))


def test_a_checkout_without_templates_says_how_to_link_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aotpack.templates", None)
    with pytest.raises(AotpackError, match="aotpack.templates is not there.*pip install -e"):
        environment.__wrapped__()


def test_a_device_function_names_its_template() -> None:
    text = render_function("device_look_back.py.jinja", "fence")
    assert text.startswith("# template: device_look_back.py.jinja\n@triton.jit\ndef fence():\n")


def test_refuses_device_functions_that_a_template_lacks() -> None:
    with pytest.raises(AttributeError, match="no attribute 'hedge'"):
        render_function("device_look_back.py.jinja", "hedge")
    with pytest.raises(UndefinedError, match="has no attribute"):
        render_function("device_scatter.py.jinja", "atomic", Titled("demo"))


def test_refuses_unknown_templates() -> None:
    with pytest.raises(TemplateNotFound, match="kernel_of_nothing"):
        render_template("kernel_of_nothing.py.jinja", Titled("demo"))
