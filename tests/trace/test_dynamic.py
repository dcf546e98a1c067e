"""Dynamic dimensions from text, merged with a file's, checked against the inputs."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.export import Dim, ShapesCollection

import aotpack
from aotpack.errors import TraceError, UsageError
from aotpack.trace import declared_names, merge_dynamic, parse_dynamic, replaced_sizes


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (["x:0=batch[1:64]"], {"x": {0: ("batch", 1, 64)}}),
        (
            ["x:0=batch[:64]", "y:1=batch"],
            {"x": {0: ("batch", 1, 64)}, "y": {1: ("batch", 1, 64)}},
        ),
        (["x:0=a[2:3]", "x:1=b[4:9]"], {"x": {0: ("a", 2, 3), 1: ("b", 4, 9)}}),
        (["x : 0 = batch [1 : 64]"], {"x": {0: ("batch", 1, 64)}}),
        (["x:-1=seq[1:4]"], {"x": {-1: ("seq", 1, 4)}}),
        ([], {}),
    ],
)
def test_parse(specs, expected):
    parsed = parse_dynamic(specs)
    shown = {
        name: {axis: (dim.__name__, dim.min, dim.max) for axis, dim in axes.items()}
        for name, axes in parsed.items()
    }
    assert shown == expected


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["x=batch"], r"--dynamic x=batch: not understood; ARGUMENT:AXIS=NAME"),
        (["x:0="], "not understood"),
        (["x:0=1b"], "'1b' is no name of a size; letters, digits and _ .*, such as n_1b"),
        (["x:0=batch size[1:4]"], "'batch size' is no name of a size; .*, such as batch_size"),
        (["x:0=b[4:4]"], "the range is empty or one value"),
        (["x:0=b[1:4]", "x:0=c"], "this axis was given before"),
        (["x:0=b[1:4]", "y:0=b[1:5]"], r"b was given the range \[1:4\] before"),
    ],
)
def test_parse_refuses(specs, message):
    with pytest.raises(UsageError, match=message):
        parse_dynamic(specs)


class Pair(nn.Module):
    def forward(self, x, n=2, *, y=None):
        return x * n if y is None else x + y


X, Y = torch.randn(4, 6), torch.randn(4, 6)
BATCH = Dim("batch", max=8)
COLLECTION = ShapesCollection()
COLLECTION[X] = {0: BATCH}


@pytest.mark.parametrize(
    "before", [None, {"x": {0: BATCH}}, {"x": (BATCH, None)}, ({0: BATCH}, None)]
)
def test_merge(before):
    merged = merge_dynamic(Pair(), (X,), {"y": Y}, before, parse_dynamic(["y:1=seq[2:9]"]))
    assert merged is not None
    assert merged["y"][1].__name__ == "seq"
    assert (merged["x"] is None) == (before is None)


@pytest.mark.parametrize(
    ("shapes", "names"),
    [
        ({"x": {0: BATCH}, "y": (None, [Dim("seq"), Dim.AUTO])}, {"batch", "seq"}),
        (({0: "rows"}, None), set()),
        (None, set()),
    ],
)
def test_declared_names(shapes, names):
    assert declared_names(shapes) == names


@pytest.mark.parametrize("before", [{"x": {0: BATCH}}, {"x": (BATCH, Dim.AUTO)}])
@pytest.mark.parametrize(
    ("given", "replaced"),
    [
        ("x:0=rows[2:]", "x:0=rows[2:] replaces batch[1:8], which the model file declares"),
        ("x:0=batch[2:8]", "x:0=batch[2:8] replaces batch[1:8], which the model file declares"),
        ("x:1=columns", None),
        ("x:0=batch[:8]", None),
        ("y:0=rows", None),
    ],
)
def test_a_size_of_the_file_that_is_replaced_is_noted(before, given, replaced):
    notes = replaced_sizes(before, parse_dynamic([given]))
    assert notes == ((f"note: --dynamic {replaced}",) if replaced else ())


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": {0: BATCH}}, "name the argument 'z'.*; the arguments are x, n"),
        (
            {"x": {2: BATCH}},
            r"for x: it has no axis 2, but rank 2 \(shape \[4, 6\]\); axes 0 to 1 are accepted",
        ),
        (
            {"x": {-1: BATCH}},
            "for x: it has no axis -1, .*; axes 0 to 1 are accepted: for -1 write 1$",
        ),
        ({"x": {-3: BATCH}}, "for x: it has no axis -3, .*; axes 0 to 1 are accepted$"),
        (
            {"x": (BATCH,)},
            r"for x: it has rank 2 \(shape .*, and they have 1 entries; an entry for",
        ),
        ({"x": {"0": BATCH}}, "for x: it has no axis '0', but rank 2"),
        ({"x": {0: "rows"}}, "axis 0 of x is 'rows'; Dim.'rows', min=1, max=64. is accepted"),
        ({"x": {0: 2.0}}, "axis 0 of x is 2.0; Dim.'name', min=1, max=64. is accepted"),
        ({"x": BATCH}, "for x: found .*; .0: Dim.'batch', min=1, max=64.., by axis, is accepted"),
        ({"n": {0: BATCH}}, "n is 3; only dimensions of tensors can be dynamic"),
        (
            {"x": {0: Dim("b", max=3)}},
            r"axis 0 of x is b in \[1, 3\], but the example input has 4",
        ),
        ({"x": 5}, "for x: found 5; .*, by axis, is accepted"),
        ({"x": {0: 8}}, "axis 0 of x is 8, a fixed size, but .* has 4; Dim.'name', min=1, max=8"),
        ((None,), "a sequence of 2 entries is accepted: the arguments are x, n"),
        (COLLECTION, r"ShapesCollection; .* pass collection.dynamic_shapes\(model, args"),
    ],
)
def test_refuses(shapes, message):
    with pytest.raises(TraceError, match=message):
        merge_dynamic(Pair(), (X, 3), {}, shapes, {})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": {"c": {0: BATCH}}}, "for x: found .*; a dict with its keys, 'a', 'b', or None for"),
        ({"x": {"a": {0: BATCH}}}, "for x: found .*; a dict with its keys, 'a', 'b', or None for"),
        ({"x": {"a": None, "b": {0: BATCH}}}, "x.'b'.: found .*; an entry for each of its 2 items"),
        ({"x": {"a": None, "b": [None]}}, "x.'b'.: found .*; an entry for each of its 2 items"),
        ({"x": [None, None]}, "for x: found .*; a dict with its keys"),
        ({"x": BATCH}, "for x: found .*; a dict with its keys"),
        ({"x": {"a": None, "b": [BATCH, None]}}, "x.'b'..0.: found .*, by axis, is accepted"),
    ],
)
def test_refuses_for_containers(shapes, message):
    given = {"a": X, "b": [X, X]}
    with pytest.raises(TraceError, match=message):
        merge_dynamic(Pair(), (given, 3), {}, shapes, {})


def test_refuses_an_example_of_one():
    with pytest.raises(TraceError, match="give an example with at least 2"):
        merge_dynamic(Pair(), (X[:1],), {}, {"x": {0: BATCH}}, {})


def test_refuses_inputs_that_do_not_fit():
    with pytest.raises(TraceError, match=r"Pair.forward\(x, n=2, \*, y=None\).*missing"):
        merge_dynamic(Pair(), (), {"y": Y}, None, {})


class Fields(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


@dataclass
class Registered:
    a: torch.Tensor
    b: torch.Tensor


torch.export.register_dataclass(Registered)


@pytest.mark.parametrize("kind", [Fields, Registered])
@pytest.mark.parametrize("beside", [False, True])
def test_equal_sizes_of_fields(kind: Any, *, beside: bool) -> None:
    class Sum(nn.Module):
        def forward(self, p: Any, x: torch.Tensor) -> torch.Tensor:
            return p.a + x if beside else p.a + p.b

    rows: dict[int, Any] = {0: Dim("b", min=1, max=9)}
    shapes = (Fields(rows, rows) if kind is Fields else [rows, rows], rows)  # type: ignore[arg-type]
    given = kind(torch.randn(3, 2), torch.randn(3, 2)), torch.randn(3, 2)
    package = aotpack.compile(Sum(), given, dynamic_shapes=shapes, target="interpreter")
    for count in (1, 9):
        p, x = kind(torch.randn(count, 2), torch.randn(count, 2)), torch.randn(count, 2)
        assert torch.equal(package(p, x), Sum()(p, x))
    uneven = [rows, None] if kind is Registered else Fields(rows, None)  # type: ignore[arg-type]
    if not beside:
        with pytest.raises(TraceError, match="b is 3, as add asks"):
            aotpack.compile(Sum(), given, dynamic_shapes=(uneven, rows), target="interpreter")


@dataclass
class Optional:
    a: torch.Tensor
    b: torch.Tensor | None = None


@dataclass
class Nested:
    none: Any
    pair: Optional
    rows: list[torch.Tensor]


torch.export.register_dataclass(Optional)
torch.export.register_dataclass(Nested)
ROWS: dict[int, Any] = {0: Dim("rows", min=1, max=9)}


class OfNested(nn.Module):
    def forward(self, given: Nested, beside: Any) -> torch.Tensor:
        return given.pair.a * 2 + given.rows[0] + beside[1]["k"].sum()


@pytest.mark.parametrize(
    "spec",
    [
        {"pair": {"a": ROWS}, "rows": (ROWS,)},
        {"pair": {"a": ROWS, "b": None}, "rows": [ROWS], "none": None},
        [[ROWS], [ROWS]],
        [None, [ROWS, None], [ROWS]],
        Nested(None, Optional(ROWS), [ROWS]),  # type: ignore[arg-type,list-item]
    ],
)
def test_sizes_of_fields_beside_those_that_are_none(spec: Any) -> None:
    def given(count: int) -> tuple[Any, ...]:
        x = torch.randn(count, 2)
        return Nested(None, Optional(x), [x]), ([x[:1, :1]], {"k": torch.ones(3)})

    package = aotpack.compile(
        OfNested(), given(3), dynamic_shapes=(spec, None), target="interpreter"
    )
    for count in (1, 9):
        arguments = given(count)
        assert torch.equal(package(*arguments), OfNested()(*arguments))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ROWS, r"for given: found .* a dict by field \(a, b\), such as \{'a': \{0: Dim\('n'\)\}\}"),
        ({"c": ROWS}, r"a dict by field \(a, b\)"),
        ([ROWS] * 3, r"a dict by field \(a, b\)"),
        ({"a": ROWS[0]}, r"for given\.a: found .*by axis"),
        ({"b": ROWS}, r"given\.b is None; only dimensions of tensors"),
    ],
)
def test_sizes_of_other_fields_are_refused(spec: Any, words: str) -> None:
    class Double(nn.Module):
        def forward(self, given: Optional) -> torch.Tensor:
            return given.a * 2

    with pytest.raises(TraceError, match=words):
        merge_dynamic(Double(), (Optional(X),), {}, {"given": spec}, {})


def test_an_argument_that_is_nearly_named_is_told() -> None:
    with pytest.raises(
        TraceError, match=r"not called with; did you mean 'x'\?; the arguments are x"
    ):
        merge_dynamic(Pair(), (X,), {}, {"X": {0: BATCH}}, {})


def test_sizes_of_an_object_without_fields_are_refused() -> None:
    class First(nn.Module):
        def forward(self, x: torch.Tensor, other: Any) -> torch.Tensor:
            return x

    with pytest.raises(TraceError, match="other is of <class 'object'>, .* register a dataclass"):
        merge_dynamic(First(), (X, object()), {}, {"x": None, "other": {0: BATCH}}, {})
