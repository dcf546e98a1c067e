"""Example inputs that are no tensors: refused by their names, or named after the model's error."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError, UsageError
from aotpack.trace.host.inputs import of_one_size
from aotpack.trace.load import load_model

X = torch.randn(2, 4)
ARRAY = X.numpy()


class Two(nn.Module):
    def forward(self, batch: Any, scale: Any = None, *, shift: Any = None) -> torch.Tensor:
        x: torch.Tensor = batch["x"] if isinstance(batch, Mapping) else batch
        return x * 2 if scale is None else x * scale


class Optional(nn.Module):
    def forward(self, mask: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if mask is None else x * mask


def compiled(module: nn.Module, *given: Any) -> Any:
    return aotpack.compile(module, *given, target="interpreter")


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        ((ARRAY,), {}, r"input 0 \(for 'batch'\) is a numpy array; give torch\.from_numpy"),
        ((X, ARRAY), {}, r"input 1 \(for 'scale'\) is a numpy array"),
        (({"x": ARRAY},), {}, r"input 0\['x'\] \(for 'batch'\) is a numpy array"),
        ((X,), {"shift": [ARRAY]}, r"input 'shift'\[0\] is a numpy array"),
        ((X, numpy.float32(3)), {}, r"is a number of numpy \(float32\); give torch\.tensor"),
    ],
)
def test_arrays_are_refused(args: Any, kwargs: Any, told: str) -> None:
    with pytest.raises(TraceError, match=told):
        compiled(Two(), args, kwargs)


def test_types_that_differ_are_told_what_to_do() -> None:
    with pytest.raises(TraceError, match=r"(?s)same dtype.*build with --dtype \(dtype=...\)"):
        compiled(nn.Linear(4, 2), (X.half(),))
    with pytest.raises(TraceError, match="eagerly|exporting") as told:
        compiled(nn.Linear(4, 2), (torch.randn(2, 5),))
    assert "--dtype" not in str(told.value)


@pytest.mark.parametrize("batch", [torch.from_numpy(ARRAY), {"x": torch.from_numpy(ARRAY)}])
def test_tensors_of_arrays_are_taken(batch: Any) -> None:
    assert torch.equal(compiled(Two(), (batch,))(batch), X * 2)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (X, r"are a tensor; give a tuple: \(x,\)"),
        (ARRAY, r"are a numpy array; give a tuple: \(torch\.from_numpy\(x\),\)"),
        ("abc", r"are a str; give a tuple: \(x,\)"),
        ({"input": X}, r"are a dict; give a tuple, \(\) here, and the inputs by name"),
    ],
)
def test_inputs_that_are_no_tuple(args: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        compiled(nn.Linear(4, 4), args)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, r"not NoneType\n  the example input 0 \(for 'input'\) is None; a tensor may"),
        ({"x": X}, r"not dict\n  .*\(for 'input'\) is a dict; a tensor may be wanted there"),
        ({"input": X}, r"is a dict; give its inputs by name, as kwargs: input"),
        ([[1.0, 2.0]], r"\(for 'input'\) is a list; where a tensor is wanted, give torch\.tensor"),
    ],
)
def test_what_the_model_wants_as_a_tensor(value: Any, told: str) -> None:
    with pytest.raises(TraceError, match=told):
        compiled(nn.Linear(4, 4), (value,))


def test_none_is_taken_where_the_model_takes_it() -> None:
    assert torch.equal(compiled(Optional(), (None, X))(None, X), X * 2)


def test_other_errors_do_not_name_it() -> None:
    with pytest.raises(TraceError, match="same reduction dim") as caught:
        compiled(nn.Sequential(nn.Linear(5, 4)), (X,))
    assert "example input" not in str(caught.value)


class Body(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Own(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x[:, :1]


@pytest.mark.parametrize(
    ("layer", "x", "words"),
    [
        (nn.Linear(5, 2), X, r"in the layer body.1, Linear\(in_features=5.*\) of float32\[2, 4\]$"),
        (nn.Embedding(4, 2), torch.tensor([7]), r"body.1, Embedding\(4, 2\) of int64\[1\]$"),
    ],
)
def test_a_layer_of_torch_that_refuses_its_input_is_named(
    layer: nn.Module, x: torch.Tensor, words: str
) -> None:
    with pytest.raises(TraceError, match=words):
        compiled(Body(nn.Identity(), layer), (x,))


def test_a_layer_of_the_user_has_its_line() -> None:
    with pytest.raises(TraceError, match=r"return x @ x\[:, :1\]$"):
        compiled(Body(nn.Identity(), Own()), (X,))


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ([1], "kwargs, are a list; give a dict: {'x': x}"),
        ("x", "kwargs, are a str; give a dict"),
        ({3: X}, "kwargs has the key 3, an int; give example inputs by the names"),
    ],
)
def test_inputs_by_name_that_are_no_dict(kwargs: Any, words: str) -> None:
    for model in (nn.ReLU(), {"run": aotpack.Method(nn.ReLU(), (), kwargs)}):
        given = () if isinstance(model, dict) else ((), kwargs)
        with pytest.raises(UsageError, match=words):
            aotpack.compile(model, *given, target="cpu")


def test_a_comma_that_a_model_file_forgot(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    text = "import torch\nmodel = torch.nn.Linear(4, 4)\nexample_inputs = (torch.ones(2, 4){})\n"
    file.write_text(text.format(","))
    assert len(load_model(str(file)).args) == 1
    file.write_text(text.format(""))
    with pytest.raises(TraceError, match=r"example_inputs is a Tensor; .*the comma of \(x,\)"):
        load_model(str(file))


def test_a_misspelt_keyword_is_named_with_the_parameter() -> None:
    words = r"unexpected keyword argument 'scal'; did you mean 'scale'\? Give example inputs"
    with pytest.raises(TraceError, match=words):
        compiled(Two(), (X,), {"scal": X})


def test_a_keyword_like_no_parameter_is_named_alone() -> None:
    with pytest.raises(TraceError, match=r"unexpected keyword argument 'other'\. Give example"):
        compiled(Two(), (X,), {"other": X})


class Masked(nn.Module):
    def forward(self, x: torch.Tensor, given: dict[str, torch.Tensor]) -> torch.Tensor:
        return (x * given["mask"]).sum(1)


@pytest.mark.parametrize("fixed", [{}, {0: None}, {0: Dim.STATIC}, {0: 3}])
def test_a_fixed_input_of_the_same_size_is_told(fixed: dict[int, Any]) -> None:
    example = torch.randn(3, 5), {"mask": torch.ones(3, 5)}
    shapes: dict[str, Any] = {"x": {0: Dim("batch", min=1, max=8)}, "given": {"mask": fixed}}
    with pytest.raises(TraceError) as refusal:
        aotpack.compile(Masked(), example, dynamic_shapes=shapes, target="interpreter")
    assert str(refusal.value).endswith(
        "Leave batch out of the dynamic shapes where it is always 3, or change the line. "
        "given['mask'].shape[0] is 3 and has no Dim. If it is the same size, give it the Dim batch "
        "too."
    )
    shapes["given"]["mask"] = shapes["x"]
    model = aotpack.compile(Masked(), example, dynamic_shapes=shapes, target="interpreter")
    x = torch.randn(8, 5)
    torch.testing.assert_close(model(x, {"mask": x}), (x * x).sum(1))


def test_each_size_has_its_own_fixed_inputs() -> None:
    text = "".join(
        f" Leave {size} out of the dynamic shapes where it is always {number}, or change the line."
        for size, number in (("rows", 3), ("columns", 9))
    )
    example = (torch.randn(3, 9), {"mask": torch.ones(3, 5)}), {}
    shapes = {"x": {0: Dim("rows"), 1: Dim("columns")}, "given": None}
    assert of_one_size(text, Masked(), example, shapes) == (
        " given['mask'].shape[0] is 3 and has no Dim. If it is the same size, give it the Dim rows "
        "too."
    )


def test_other_fixed_inputs_are_not() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.reshape(3, -1) + y.sum() if x.shape[0] == 3 else x

    shapes = {"x": {0: Dim("batch", min=1, max=8)}, "y": {0: Dim("rows", min=2, max=9)}}
    example = torch.randn(3, 5), torch.ones(3, 4)
    with pytest.raises(TraceError, match="batch is 3") as refusal:
        aotpack.compile(Fixed(), example, dynamic_shapes=shapes, target="interpreter")
    assert "has no Dim" not in str(refusal.value)
