"""Size names that generated code may use as they are, and those it has for itself."""

import re
from pathlib import Path

import pytest

from aotpack.ir.names import safe_size_name

TEMPLATES = Path(__file__).parents[2] / "templates"


@pytest.mark.parametrize("name", ["b", "s", "batch", "seq_len", "x_size0"])
def test_keeps(name: str) -> None:
    assert safe_size_name(name) == name


@pytest.mark.parametrize(
    "name", ["x", "m", "t12", "acc1", "p0", "tl", "lambda", "min", "in_ptr", "Launch"]
)
def test_changes(name: str) -> None:
    assert safe_size_name(name) == name + "_"


def test_no_size_has_a_name_that_a_template_gives() -> None:
    texts = [path.read_text() for path in TEMPLATES.glob("*.py.jinja")]
    assigned = re.compile(r"^\s*(?:for )?([a-z_]+)(?: [+]?= | in )", re.MULTILINE)
    names = {name for text in texts for name in assigned.findall(text)}
    assert {"x", "k_start", "j_clear", "x_tiles"} <= names
    assert all(safe_size_name(name) != name for name in names)
