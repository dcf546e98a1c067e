"""Signatures as people read them."""

from pathlib import Path

import pytest

from aotpack.runtime.manifest import read_manifest
from aotpack.trees import Tree

from ..packages import LEAF, write_demo

X = "float32[b, s]"
TWO = ("constant", (), (), 2)


@pytest.mark.parametrize(
    ("trees", "takes"),
    [
        ({"args": (LEAF, LEAF)}, f"x: {X}, y: {X}"),
        ({"args": (Tree("list", (LEAF, LEAF)),)}, f"x: [{X}, {X}]"),
        ({"args": (Tree("tuple", (LEAF,)), LEAF)}, f"x: ({X},), y: {X}"),
        ({"args": (LEAF, LEAF, Tree(*TWO), Tree("none"))}, f"x: {X}, y: {X}, third=2, fourth=None"),
        ({"args": (Tree("dict", (LEAF, LEAF), ("a", "b c")),)}, f"x: {{'a': {X}, 'b c': {X}}}"),
        (
            {"args": (Tree("record", (LEAF, LEAF), ("m", "n"), name="D", fields=("m", "n")),)},
            f"x: D(m: {X}, n: {X})",
        ),
        ({"args": (LEAF,), "kwargs": {"k": LEAF}}, f"x: {X}, *, k: {X}"),
        ({"kwargs": {"k": LEAF, "m": LEAF}, "positional": ("m",)}, f"m: {X}, *, k: {X}"),
        ({"kwargs": {"k": LEAF, "m": LEAF}, "positional": ("m", "k")}, f"m: {X}, k: {X}"),
        (
            {
                "kwargs": {"k": LEAF, "m": LEAF},
                "positional": ("m", "y", "k", "flag"),
                "defaults": (("y", None), ("flag", True)),
            },
            f"m: {X}, y=None, k: {X}",
        ),
    ],
)
def test_parameters(tmp_path: Path, trees: dict, takes: str) -> None:
    kwargs = trees.get("kwargs", {})
    made = {
        "args": Tree("tuple", trees.get("args", ())),
        "kwargs": Tree("dict", (*kwargs.values(),), (*kwargs,)),
        "positional": trees.get("positional", ()),
        "defaults": trees.get("defaults", ()),
    }
    signature = read_manifest(write_demo(tmp_path, **made)).signature
    assert str(signature).startswith(f"demo({takes}) -> {X}\n  b in 1 to 8")


POINT = Tree("named", (LEAF, Tree("none")), ("u", "v"), name="Point")


@pytest.mark.parametrize(
    ("result", "text", "label"),
    [
        (LEAF, X, "output0"),
        (Tree("tuple", (LEAF,)), f"({X},)", "output0"),
        (Tree("list", (Tree("none"), LEAF)), f"[None, {X}]", "output1"),
        (Tree("dict", (LEAF,), ("logits",)), f"{{'logits': {X}}}", "logits"),
        (POINT, f"Point(u: {X}, v: None)", "u"),
        (Tree("dict", (Tree("list", (POINT,)),), ("past",)), None, "past[0].u"),
        (Tree("tuple", (Tree("none"), POINT)), None, "output1.u"),
    ],
)
def test_results(tmp_path: Path, result: Tree, text: str | None, label: str) -> None:
    signature = read_manifest(write_demo(tmp_path, result=result)).signature
    assert signature.labels == (label,)
    if text is not None:
        assert f" -> {text}\n" in str(signature)
