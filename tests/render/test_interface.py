"""The stub of a package: it reads as Python, and declares what the runtime has."""

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.render.interface import render_interface
from aotpack.runtime import Model, errors, load
from aotpack.runtime.interface.listing import TensorInfo
from aotpack.stages import Signature, TensorSpec
from aotpack.trees import TAKEN, Constant, Tree

LEAF, NONE = Tree("leaf"), Tree("none")
POINT = Tree("named", (LEAF, NONE), ("u", "v"), name="Point")
FILLED = Tree("named", (LEAF, LEAF), ("u", "v"), name="Point")
OTHER = Tree("named", (LEAF,), ("w",), name="Point")
CLASH = Tree("object", (LEAF,), ("keys",), name="Model", fields=("keys", "rest"))
REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"


def stub(
    args: tuple[Tree, ...] = (),
    names: tuple[str, ...] = (),
    result: Tree = LEAF,
    defaults: tuple[tuple[str, Constant], ...] = (),
    **kwargs: Tree,
) -> str:
    trees = Tree("tuple", args), Tree("dict", (*kwargs.values(),), (*kwargs,))
    count = sum(node.kind == "leaf" for tree in trees for node in tree.walk())
    shape = (Int.of(Var("b", 1, 8)), Int.of(4))
    inputs = tuple(TensorSpec(f"x{n}", DType.FLOAT32, shape) for n in range(count))
    signature = Signature("demo", "1", (), inputs, (), *trees, result, names, defaults=defaults)
    text = render_interface(signature)
    ast.parse(text)
    return text


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (
            {"args": (LEAF, NONE), "names": ("x", "y")},
            "self,\nx: _A,  # float32[b, 4]\ny: None,\n) -> _A: ...",
        ),
        (
            {"args": (LEAF,), "names": ("x", "k"), "k": LEAF, "m": LEAF},
            "x: _A,K\nk: _A,K\n*,\nm: _A,K",
        ),
        ({"args": (LEAF, LEAF), "names": ("x", "rest[0]")}, "x: _A,K\nrest_0: _A,K\n/,\n)"),
        ({"args": (LEAF,), "names": ("x",), "a-b": LEAF}, "x: _A,K\n**others: _A,\n)"),
        (
            {"args": (Tree("constant", value=2), Tree("constant", value=2.5)), "names": ("n", "f")},
            "n: Literal[2],\nf: float,",
        ),
        (
            {"args": (Tree("list", (LEAF,)), Tree("tuple", (LEAF,))), "names": ("x", "y")},
            "x: Sequence[_A],K\ny: tuple[_A] | list[Any],K",
        ),
        (
            {"args": (Tree("dict", (LEAF, NONE), ("a", "b")), POINT), "names": ("x", "y")},
            "x: Mapping[str, _A | None],K\ny: _PointLike[_A] | Mapping[str, Any],K",
        ),
        (
            {"args": (LEAF,), "names": ("x", "y"), "defaults": (("y", None), ("f", 2.5))},
            "\ndef __call__(\nself,\nx: _A,K\ny: None = ...,\n*,\nf: float = ...,\n) ->",
        ),
        (
            {"args": (LEAF,), "names": ("x", "y", "k"), "k": LEAF, "defaults": (("y", "no"),)},
            "@overload\ndef __call__(\nself,\nx: _A,K\ny: Literal['no'] = ...,\n*,\nk: _A,K\n) -> "
            "_A: ...\n@overload\ndef __call__(\nself,\nx: _A,K\ny: Literal['no'],\nk: _A,K\n) -> ",
        ),
        (
            {"args": (LEAF,), "names": ("x", "_y"), "defaults": (("_y", None),)},
            "self,\nx: _A,K\n) -> _A: ...",
        ),
        ({"result": Tree("tuple")}, ") -> tuple[()]: ..."),
        ({"result": Tree("list", (LEAF, NONE))}, ") -> list[_A | None]: ..."),
        ({"result": Tree("dict", (LEAF,), ("a b",))}, ") -> dict[str, _A]: ..."),
        ({"result": Tree("dict", (Tree("dict", (LEAF,), ("b",)),), ("a",))}, "a: _ResultA[_A]"),
        ({"result": Tree("list", (POINT, FILLED))}, "u: _A\nv: None | _A\n"),
        ({"result": Tree("list", (POINT, OTHER))}, "class Point_(NamedTuple, Generic[_A]):\nw: _A"),
        (
            {"result": CLASH},
            "class Model_(dict[str, Any], Generic[_A]):\nkeys: _A  # type: ignore[assignment]\n"
            "rest: None\n@overload\ndef __getitem__(self, key: Literal['keys', 0], /) -> _A: ...",
        ),
    ],
)
def test_types(given: dict, lines: str) -> None:
    text = re.sub(r"^ +", "", stub(**given), flags=re.MULTILINE)
    assert lines.replace("K", "  # float32[b, 4]") in text


def declared() -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """The classes and functions of a stub by name."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    return {one.name: one for one in ast.parse(stub()).body if isinstance(one, kinds)}


def test_no_class_of_a_model_takes_a_name_of_the_stub() -> None:
    module = ast.parse(stub())
    froms = [one for one in module.body if isinstance(one, ast.ImportFrom)]
    names = {alias.name for one in froms for alias in one.names} | {*declared()}
    assert {name for name in names if not name.startswith("_")} <= TAKEN


def test_load_is_that_of_the_runtime() -> None:
    found = declared()["load"]
    assert isinstance(found, ast.FunctionDef)
    ours = inspect.signature(load).parameters
    given = {a.arg: ast.unparse(a.annotation) for a in (*found.args.args, *found.args.kwonlyargs)}
    assert [*given] == [name for name in ours if name != "package"]
    defaults = [ast.literal_eval(one) for one in (*found.args.defaults, *found.args.kw_defaults)]
    assert defaults == [ours[name].default for name in given]
    for name in given.keys() - {"device", "debug"}:  # the stub is narrower
        assert given[name] == str(ours[name]).partition(": ")[2].partition(" = ")[0].replace(
            "pathlib.Path", "Path"
        ).replace("collections.abc.", "").replace("typing.", "")


def test_errors_are_those_of_the_runtime() -> None:
    theirs = {n for n, one in vars(errors).items() if inspect.isclass(one) and hasattr(one, "args")}
    found = {name for name in declared() if name.endswith(("Error", "Failed"))}
    assert found == theirs


def test_a_model_is_that_of_the_runtime() -> None:
    found = declared()["Model"]
    assert isinstance(found, ast.ClassDef)
    functions = {one.name: one for one in found.body if isinstance(one, ast.FunctionDef)}
    fixed = {ast.unparse(one.target) for one in found.body if isinstance(one, ast.AnnAssign)}
    section = REFERENCE.read_text().partition("### A loaded model")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`model\.(\w+)", section))
    assert {name for name in functions if name[0] != "_"} | fixed == documented
    for name, function in functions.items():
        theirs = getattr(Model, name)
        if isinstance(theirs, property) or name == "__call__":
            continue
        given = [argument.arg for argument in function.args.args]
        known = [*inspect.signature(theirs).parameters.items()]
        assert given == [other for other, _ in known[: len(given)]]
        assert all(own.default is not own.empty for _, own in known[len(given) :])


def test_an_input_is_that_of_the_runtime() -> None:
    found = declared()["_TensorInfo"]
    lines = [re.sub("_(SizeRange|CountedSize)", r"\1", ast.unparse(one)) for one in found.body]
    assert lines == [f"{one.name}: {_text(one.type)}" for one in fields(TensorInfo)]


def _text(kind: object) -> str:
    text = kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)
    return re.sub(r"[\w.]*\.(?=SizeRange|CountedSize)", "", text)
