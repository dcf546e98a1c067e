"""The package's own modules."""

import ast

from aotpack.emit.modules import init_text
from aotpack.trees import TAKEN, Tree

from .builds import IDENTITY, LEAF, tiny

PAIR = Tree("named", (LEAF,), ("x",), name="Pair")


def names_of(text: str) -> set[str]:
    """The names that a module binds."""
    body = ast.parse(text).body
    bound = [alias.asname or alias.name for one in body for alias in getattr(one, "names", ())]
    bound += [node.id for one in body for node in getattr(one, "targets", ())]
    return {*bound, *(one.name for one in body if isinstance(one, ast.FunctionDef))}


def test_no_class_of_a_model_takes_a_name_of_the_module() -> None:
    plain = names_of(init_text(IDENTITY, tiny().rendered))
    assert {name for name in plain if not name.startswith("_")} <= TAKEN


def test_classes_of_a_model_are_in_its_module() -> None:
    other = Tree("record", (LEAF,), ("x",), name="load", fields=("x", "y"))
    product = tiny(args=Tree("tuple", (PAIR,)), result=Tree("list", (PAIR, other)))
    text = init_text(IDENTITY, product.rendered)
    assert {"Pair", "load_", "container"} <= names_of(text)
    assert "Pair = container('named', 'Pair', ('x',))\n" in text
    assert "load_ = container('record', 'load', ('x', 'y'))\n" in text
    assert '    "Pair",\n    "load_",\n]' in text
