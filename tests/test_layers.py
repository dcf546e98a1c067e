"""The laws of the layout, read off the source: imports, lengths, one Environment."""

import ast
from pathlib import Path

import pytest

from tests.imports import imports

ROOT = Path(__file__).parents[1]
MODULES = sorted(p for p in (ROOT / "aotpack").rglob("*.py") if "templates" not in p.parts)
STAGES = {"trace", "lower", "schedule", "render", "precompile", "emit", "tune"}
BASE = {
    "errors",
    "target",
    "devices",
    "early_start",
    "importable",
    "lazy",
    "knobs",
    "progress",
    "temporary",
    "trees",
    "version",
}
BELOW = BASE | {"ir", "stages", "runtime"}
ALLOWED = {
    "errors": {"runtime"},  # a package raises errors of the same classes
    "trees": set(),
    "version": set(),
    "target": {"devices", "errors"},
    "knobs": {"errors"},
    "devices": set(),
    "early_start": {"devices"},  # on which devices it pays
    "importable": set(),
    "lazy": set(),
    "progress": set(),
    "temporary": {"errors"},
    "": {"errors", "target", "version", "pipeline"},
    "ir": {"errors", "target", "ir", "runtime"},
    "stages": {"ir", "target", "trees"},
    "runtime": {"runtime"},  # it is copied into wheels, where nothing else is
    **{stage: BASE | {"", "ir", "stages", stage} for stage in STAGES},
    "trace": BASE | {"", "ir", "stages", "runtime", "trace"},
    "tune": BASE | {"", "ir", "stages", "runtime", "tune"},
    "precompile": BASE | {"", "ir", "stages", "runtime", "precompile"},
    "emit": BASE | {"", "ir", "stages", "runtime", "emit"},
    "instrumentation": {
        "errors",
        "ir",
        "stages",
        "knobs",
        "progress",
    },  # it sees every stage's product
    "notes": {"stages"},
    "options": BELOW | STAGES,
    "pipeline": BELOW | STAGES | {"", "instrumentation", "notes", "options"},
    "transformers_export": {"errors", "pipeline", "runtime", "temporary"},
    "commands": BELOW
    | STAGES
    | {"", "instrumentation", "notes", "options", "pipeline", "commands"},
    "cli": {"errors", "version", "commands"},  # it dispatches; verbs import what they need
    "__main__": {"cli"},
}
ONLY_IN = {
    "torch": {"trace", "pipeline", "transformers_export"},
    "transformers": {"transformers_export"},
    "triton": {"precompile"},
    "jinja2": {"render"},
    "setuptools": {"emit"},
    "cryptography": {"emit"},
    "sympy": {"trace"},  # torch's symbolic sizes
}
ONLY_IN_FILES = {"torch": {"runtime/torch_calls.py"}}  # lazily, where a package asks for it
NOWHERE = ("torch._inductor",)
LONGEST_MODULE, LONGEST_FUNCTION = 400, 40


def folder_of(path: Path) -> str:
    """The part of aotpack a module belongs to: a folder or the name of a module at the top."""
    parts = path.relative_to(ROOT / "aotpack").parts
    name = parts[0].removesuffix(".py")
    return "" if name == "__init__" else name


def layer_faults(path: Path, text: str) -> list[str]:
    """Imports that the laws do not allow in this module."""
    folder = folder_of(path)
    package = ".".join(path.relative_to(ROOT).parent.parts)
    faults = []
    found = {name for pair in imports(text, package) for name in (pair[0], ".".join(pair))}
    for name in sorted(found):
        top, _, rest = name.partition(".")
        inner = rest.split(".")[0]
        if name.startswith(NOWHERE):
            faults.append(f"{name} is imported nowhere")
        elif str(path.relative_to(ROOT / "aotpack")) in ONLY_IN_FILES.get(top, ()):
            continue
        elif top in ONLY_IN and folder not in ONLY_IN[top]:
            faults.append(f"{top} is imported in {' and '.join(sorted(ONLY_IN[top]))} alone")
        elif top == "aotpack" and is_foreign(inner, ALLOWED[folder]):
            faults.append(f"{folder or 'aotpack'} does not import {inner}")
    return faults


def is_foreign(name: str, allowed: set[str]) -> bool:
    """True for a part of aotpack outside ``allowed``; names in its ``__init__`` are no parts."""
    return name in ALLOWED and name not in allowed


def lawless(root: Path) -> set[str]:
    """The parts of ``root/aotpack`` without a law, and laws without a part."""
    entries = {path for path in (root / "aotpack").iterdir() if path.suffix == ".py"}
    entries |= {path.parent for path in (root / "aotpack").glob("*/__init__.py")}
    parts = {path.name.removesuffix(".py") for path in entries} - {"templates"}  # texts
    return {"" if name == "__init__" else name for name in parts} ^ ALLOWED.keys()


def test_every_part_has_a_law() -> None:
    assert lawless(ROOT) == set()


def test_a_part_without_a_law_and_a_law_without_a_part_are_found(tmp_path: Path) -> None:
    for name in ALLOWED.keys() - {"tune"} | {"linker"}:
        path = tmp_path / "aotpack" / (name or "__init__")
        path = path / "__init__.py" if name in STAGES else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert lawless(tmp_path) == {"linker", "tune"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_layers(path: Path) -> None:
    assert layer_faults(path, path.read_text()) == []


@pytest.mark.parametrize(
    ("module", "line", "fault"),
    [
        ("lower/x.py", "import torch", "torch is imported in pipeline and trace and tr"),
        ("lower/x.py", "from aotpack.schedule import schedule", "lower does not import schedule"),
        ("ir/x.py", "from aotpack.stages import Traced", "ir does not import stages"),
        ("trace/x.py", "from torch._inductor import config", "is imported nowhere"),
        ("render/x.py", "import triton", "triton is imported in precompile alone"),
        ("runtime/x.py", "import torch", "torch is imported in pipeline and trace and tr"),
        ("runtime/x.py", "from aotpack.ir import dtypes", "runtime does not import ir"),
        ("runtime/x.py", "from ..errors import AotpackError", "runtime does not import errors"),
        ("errors.py", "from aotpack.pipeline import build", "errors does not import pipeline"),
        ("instrumentation.py", "from aotpack.schedule import PASSES", "does not import schedule"),
        ("ir/x.py", "from aotpack.instrumentation import x", "ir does not import instrumentation"),
        ("trace/x.py", "from aotpack import cli", "trace does not import cli"),
        ("pipeline.py", "from aotpack.commands import build", "pipeline does not import commands"),
        ("version.py", "from aotpack.errors import x", "version does not import errors"),
        ("cli.py", "from aotpack.pipeline import build", "cli does not import pipeline"),
        ("schedule/x.py", "from jinja2 import Environment", "jinja2 is imported in render alone"),
    ],
)
def test_a_forbidden_import_is_found(module: str, line: str, fault: str) -> None:
    faults = layer_faults(ROOT / "aotpack" / module, f"def f():\n    {line}\n")
    assert any(fault in found for found in faults)


def size_faults(text: str) -> list[str]:
    """Modules and functions that are too long."""
    faults = []
    lines = text.count("\n")
    if lines > LONGEST_MODULE:
        faults.append(f"{lines} lines, at most {LONGEST_MODULE}")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno:
            length = node.end_lineno - node.lineno + 1
            if length > LONGEST_FUNCTION:
                faults.append(f"{node.name} has {length} lines, at most {LONGEST_FUNCTION}")
    return faults


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_and_functions_stay_short(path: Path) -> None:
    assert size_faults(path.read_text()) == []


def test_a_long_function_and_a_long_module_are_found() -> None:
    long = "def f():\n" + "    x = 1\n" * 400
    assert [fault.split()[-1] for fault in size_faults(long)] == ["400", "40"]


def star_imports(text: str) -> list[int]:
    """Lines with ``from x import *``."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_star_imports_and_a_docstring(path: Path) -> None:
    text = path.read_text()
    assert star_imports(text) == []
    assert ast.get_docstring(ast.parse(text))


def test_a_star_import_is_found() -> None:
    assert star_imports("from os import *\n") == [1]


def environments(text: str) -> list[set[str]]:
    """The settings of each ``Environment(...)`` made in a module."""
    return [
        {keyword.arg for keyword in node.keywords if keyword.arg}
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, (ast.Name, ast.Attribute))
        and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr)
        in ("Environment", "Template", "from_string")
    ]


def test_there_is_one_environment_and_it_is_strict() -> None:
    made = [found for path in MODULES for found in environments(path.read_text())]
    assert len(made) == 1
    assert {"undefined", "trim_blocks", "lstrip_blocks"} <= made[0]


def test_another_way_to_make_a_template_is_found() -> None:
    assert len(environments("jinja2.Template('x')\nenv.from_string('y')\nEnvironment()\n")) == 3


def test_names_of_folders_say_what_they_are() -> None:
    vague = {"utils", "helpers", "common", "misc", "extra", "util"}
    assert not [path for path in MODULES if vague & {*path.parts, path.stem}]
