"""Each language of kernels has a text for all that the IR means, and names for itself."""

import ast
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import HostTile, PointwiseTile, Tile
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.optable import OPS
from aotpack.ir.values import Load
from aotpack.pipeline import Build, Source
from aotpack.render import render, reserved_names
from aotpack.render.emit.language import Language
from aotpack.render.emit.reserved import defined_names, given_names
from aotpack.render.emit.texts import text_for
from aotpack.render.environment import template_texts
from aotpack.render.languages import LANGUAGES, language_of
from aotpack.schedule import schedule
from aotpack.target import Target
from tests.ir.samples import COMPUTE
from tests.schedule.programs import Writer, apply, load, lowered

RENDER = Path(__file__).parents[2] / "aotpack" / "render"
HOPPER = (Target("cuda", 90),)


def unspoken(language: Language) -> list[str]:
    """Operators, types of their operands, and reductions that a language has no text for."""
    names = [*(OPS.keys() - language.operators), *(MONOIDS.keys() - set(language.monoids))]
    return names + [
        f"{name}({dtype})"
        for name in language.operators
        for dtype in COMPUTE
        if OPS[name].accepts(dtype) != has_text(language, name, dtype)
    ]


def has_text(language: Language, name: str, dtype: DType) -> bool:
    try:
        return bool(text_for(language.operators, name, dtype))
    except TypeError:
        return False


@pytest.mark.row("S:P3", "C:G22")
@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_a_language_has_a_text_for_all_that_the_ir_means(language: Language) -> None:
    assert unspoken(language) == []


def test_a_missing_text_is_found() -> None:
    whole = LANGUAGES[0]
    fewer = {name: texts for name, texts in whole.operators.items() if name != "erf"}
    assert unspoken(replace(whole, operators=fewer)) == ["erf"]
    narrow = {**whole.operators, "abs": {"float": "tl.abs({0})", "int": "tl.abs({0})"}}
    assert unspoken(replace(whole, operators=narrow)) == ["abs(uint8)"]
    assert unspoken(replace(whole, monoids=[*MONOIDS.keys() - {"welford"}])) == ["welford"]


def unregistered(folders: Iterable[str], languages: Iterable[Language]) -> set[str]:
    """Folders with a dialect that are no language, and languages without a folder."""
    return set(folders) ^ {language.name for language in languages}


def test_each_folder_with_a_dialect_is_a_language() -> None:
    folders = {path.parent.name for path in RENDER.glob("*/dialect.py")} - {"emit"}  # the port
    assert unregistered(folders, LANGUAGES) == set()
    assert unregistered([*folders, "metal"], LANGUAGES) == {"metal"}


def test_each_kind_of_tile_has_one_language() -> None:
    kinds = [kind for language in LANGUAGES for kind in language.tiles]
    assert len(kinds) == len(set(kinds)) and set(kinds) == set(get_args(Tile))
    assert language_of(HostTile()).name == "c"
    assert language_of(PointwiseTile(256, 4)).name == "triton"


@pytest.mark.parametrize("name", ["b", "s", "batch", "seq_len", "x_size0"])
def test_names_that_no_text_has(name: str) -> None:
    assert name not in reserved_names()


@pytest.mark.parametrize(
    "name", ["x", "m", "t12", "acc1", "p0", "tl", "lambda", "min", "in_ptr", "Launch", "k_start"]
)
def test_names_that_texts_have(name: str) -> None:
    assert name in reserved_names()


@pytest.mark.parametrize(("name", "kept"), [("tl", "tl_"), ("length", "length")])
def test_a_build_renames_a_size_with_a_reserved_name(name: str, kept: str) -> None:
    shapes = ({0: torch.export.Dim(name, max=9)},)
    source = Source(torch.nn.ReLU(), (torch.ones(4),), dynamic_shapes=shapes)
    traced = Build(source).traced
    assert [size.name for size in traced.graph.signature.sizes] == [kept]


def test_names_are_read_off_templates() -> None:
    texts = (*template_texts("kernel_*.py.jinja"), *template_texts("loop_*.py.jinja"))
    words = given_names(texts).words
    assert {"x", "k_start", "j_clear", "x_tiles"} <= words
    assert all(name in reserved_names() for name in words)


def test_functions_of_the_device_are_read_off_templates() -> None:
    words = defined_names(template_texts("device_*.py.jinja")).words
    assert {"fence", "publish", "open_ring", "mbarrier_wait"} <= words
    assert all(name in reserved_names() for name in words)
    assert "found" not in reserved_names()


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
def test_names_that_a_kernel_gives_are_reserved(kind: str) -> None:
    functions = [n for n in ast.parse(rendered(kind)).body if isinstance(n, ast.FunctionDef)]
    *helpers, entry = functions
    given = {node.name for node in helpers}
    for node in ast.walk(entry):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            given.add(node.id)
    assert {"next_row", "ring", "clusters", "mailbox", "async_wait_group"} <= given
    assert [name for name in sorted(given) if name not in reserved_names()] == []
