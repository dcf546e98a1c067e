"""Records from JSON by their annotations: what is accepted, and where the first mismatch is."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any, get_args, get_origin

import pytest

from aotpack.runtime import manifest
from aotpack.runtime.files.schema import (
    INLINE,
    PLACE,
    InRange,
    Matching,
    Mismatch,
    OneOf,
    Parsed,
    read_record,
)
from aotpack.runtime.structures.trees import Tree

Word = Annotated[str, Matching(re.compile("[a-z]+"), "small letters")]


def doubled(value: Any) -> int:
    if type(value) is not int:
        raise Mismatch("no integer", "an integer")
    return 2 * value


@dataclass(frozen=True)
class Title:
    title: Word
    mode: Annotated[str, OneOf(("a", "b"))]


@dataclass(frozen=True)
class Node:
    key: Annotated[str, PLACE]
    size: Annotated[int, InRange(1, 9)]
    children: "tuple[Node, ...]" = ()


@dataclass(frozen=True)
class Whole:
    where: Annotated[str, PLACE]
    head: Annotated[Title, INLINE]
    nodes: Mapping[Word, Node]
    ratio: float
    twice: Annotated[int, Parsed(doubled)]
    tags: frozenset[str]
    note: str | None
    flag: bool = False


GOOD: dict[str, Any] = {
    "title": "t",
    "mode": "a",
    "nodes": {"n": {"size": 3, "children": [{"size": 1}]}},
    "ratio": 1,
    "twice": 4,
    "tags": ["x", "y"],
    "note": None,
}


def test_a_record_is_read() -> None:
    child = Node(0, 1)  # type: ignore[arg-type]
    wanted = Whole(
        "here", Title("t", "a"), {"n": Node("n", 3, (child,))}, 1.0, 8, frozenset("xy"), None
    )
    assert read_record(Whole, GOOD, "here") == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": "T"}, "title is 'T'; accepted: small letters"),
        ({"mode": "c"}, "mode is 'c'; accepted: a, b"),
        ({"ratio": True}, "ratio is true; accepted: a number"),
        ({"ratio": float("inf")}, "ratio is inf; accepted: a finite number"),
        ({"flag": 1}, "flag is 1; accepted: true or false"),
        ({"note": 5}, "note is 5; accepted: text"),
        ({"note": "\ud800"}, "note is .*; accepted: .* characters of Unicode"),
        ({"tags": "xy"}, "tags is 'xy'; accepted: a list"),
        ({"twice": "2"}, "twice is no integer; accepted: an integer"),
        ({"nodes": []}, "nodes is a list of 0; accepted: an object"),
        ({"nodes": {"N": {"size": 1}}}, "nodes.N is 'N'; accepted: small letters"),
        ({"nodes": {"n": {"size": True}}}, "nodes.n.size is true; accepted: an integer"),
        ({"nodes": {"n": {"size": 10}}}, "nodes.n.size is 10; accepted: 1 to 9"),
        ({"nodes": {"n": {"size": 1 << 200}}}, "is an integer of 201 bits; accepted: 1 to 9"),
        ({"nodes": {"n": {}}}, "nodes.n.size is absent"),
        (
            {"nodes": {"n": {"size": 1, "children": [{"size": 2}, {"size": "3"}]}}},
            r"nodes.n.children\[1\].size is '3'; accepted: an integer",
        ),
        ({"of a newer format": 1}, r"\['of a newer format'\] is there; accepted: the keys flag"),
    ],
)
def test_a_mismatch_names_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Mismatch, match=message):
        read_record(Whole, GOOD | change)


def test_python_3_10_reads_the_schemas_too() -> None:
    """It resolves annotations that are text as a whole, not text inside of others."""
    records = [kind for kind in (*vars(manifest).values(), Tree) if is_dataclass(kind)]
    hints = [hint for kind in records for hint in vars(kind)["__annotations__"].values()]
    assert len(hints) > 50 and any(isinstance(hint, str) for hint in hints)
    assert not [hint for hint in hints if any(isinstance(part, str) for part in parts_of(hint))]
    assert [*parts_of(tuple["Tree", ...])] == ["Tree", ...]


def parts_of(hint: Any) -> Iterator[Any]:
    inner = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
    for part in inner:
        yield part
        yield from parts_of(part)


def test_deep_records_are_refused() -> None:
    node: dict[str, Any] = {"size": 1}
    for _ in range(5000):
        node = {"size": 1, "children": [node]}
    with pytest.raises(Mismatch, match="nested deeper"):
        read_record(Whole, GOOD | {"nodes": {"n": node}})
