"""Size names that generated code may use as they are, and those it has for itself."""

import ast
import re
from pathlib import Path

import pytest

from aotpack.ir.names import free_name, safe_size_name
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.values import Load
from aotpack.render import render
from aotpack.schedule import schedule
from aotpack.target import Target
from tests.schedule.programs import Writer, apply, load, lowered

HOPPER = (Target("cuda", 90),)
TEMPLATES = Path(__file__).parents[2] / "templates"


@pytest.mark.parametrize("name", ["b", "s", "batch", "seq_len", "x_size0"])
def test_keeps(name: str) -> None:
    assert safe_size_name(name) == name


@pytest.mark.parametrize(
    "name", ["x", "m", "t12", "acc1", "p0", "tl", "lambda", "min", "in_ptr", "Launch"]
)
def test_changes(name: str) -> None:
    assert safe_size_name(name) == name + "_"


@pytest.mark.parametrize(
    ("taken", "free"),
    [([], "y_part"), (["y_part"], "y_part_1"), (["y_part", "y_part_1"], "y_part_2")],
)
def test_a_new_name_is_that_of_nothing_else(taken: list[str], free: str) -> None:
    assert free_name("y_part", taken) == free


def rendered(kind: str) -> str:
    """A kernel of clusters, whose rows go in turn: the one with most names of its own."""
    w = Writer()
    x, weight = w.input("x", 1000, 131_072), w.input("w", 131_072)
    parts = tuple(f"s{n}" for n in range(MONOIDS[kind].outputs))
    w.reductions(parts, [1000], [131_072], lambda i, r: load(x, i, r), kind=kind)

    def value(i: object, j: object) -> object:
        made = Load(parts[0], (i,), x.dtype)  # type: ignore[arg-type]
        return apply("mul", apply("sub", load(x, i, j), made), load(weight, j))  # type: ignore[arg-type]

    made = render(schedule(lowered(w.program(w.pointwise("y", (1000, 131_072), value)))), HOPPER)  # type: ignore[arg-type]
    return next(kernel.text for kernel in made.kernels if kernel.ring_bytes)


@pytest.mark.parametrize("kind", ["sum", "welford", "softmax"])
def test_no_size_has_a_name_that_a_kernel_gives(kind: str) -> None:
    functions = [n for n in ast.parse(rendered(kind)).body if isinstance(n, ast.FunctionDef)]
    *helpers, entry = functions
    given = {node.name for node in helpers}
    for node in ast.walk(entry):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            given.add(node.id)
    assert {"next_row", "ring", "clusters", "mailbox", "async_wait_group"} <= given
    assert [name for name in sorted(given) if safe_size_name(name) == name] == []


def test_no_size_has_a_name_that_a_template_gives() -> None:
    kernels = (p for p in TEMPLATES.glob("*.py.jinja") if not p.name.startswith("device_"))
    texts = [path.read_text() for path in kernels]  # device functions know no sizes
    assigned = re.compile(r"^\s*(?:for )?([a-z_]+)(?: [+]?= | in )", re.MULTILINE)
    names = {name for text in texts for name in assigned.findall(text)}
    assert {"x", "k_start", "j_clear", "x_tiles"} <= names
    assert all(safe_size_name(name) != name for name in names)
