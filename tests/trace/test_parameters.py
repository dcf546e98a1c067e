"""What a call may pass by position, and by which names."""

import warnings

import pytest
import torch
from torch import nn

from aotpack.errors import TraceError
from aotpack.trace import trace

X = torch.randn(2, 4)


class Masked(nn.Module):
    def forward(self, ids, types=None, mask=None, *, flag=True):
        return ids + mask if flag else ids


class Other(nn.Module):
    def forward(self, ids, types=(), mask=None, *, flag=True):
        return ids + mask


class Rest(nn.Module):
    def forward(self, first, /, *rest, **more):
        return first + sum(rest) + sum(more.values())


@pytest.mark.parametrize(
    ("model", "args", "kwargs", "names"),
    [
        (Masked(), (X, None, X), {"flag": True}, ("ids", "types", "mask")),
        (Masked(), (), {"mask": X, "types": None, "ids": X}, ("ids", "types", "mask")),
        (Masked(), (X,), {"flag": True, "types": None, "mask": X}, ("ids", "types", "mask")),
        (Masked(), (), {"mask": X, "ids": X}, ("ids", "types", "mask")),
        (Masked(), (X,), {"mask": X}, ("ids", "types", "mask")),
        # what follows a parameter whose default no call can pass has no place
        (Other(), (X,), {"mask": X}, ("ids",)),
        (Rest(), (X, X, X), {"z": X}, ("first", "rest[0]", "rest[1]")),
        (nn.ReLU(), (X,), {}, ("input",)),
    ],
)
def test_names(model, args, kwargs, names):
    signature = trace(model, args, kwargs, name="m", version="1").graph.signature
    assert signature.positional == names


@pytest.mark.parametrize(
    ("model", "args", "kwargs", "defaults"),
    [
        (Masked(), (X,), {"mask": X}, (("types", None), ("flag", True))),
        (Masked(), (X, None, X), {"flag": True}, ()),
        (Other(), (X,), {"mask": X}, (("flag", True),)),
        (Rest(), (X, X, X), {"z": X}, ()),
    ],
)
def test_defaults(model, args, kwargs, defaults):
    signature = trace(model, args, kwargs, name="m", version="1").graph.signature
    assert signature.defaults == defaults


WRAPPERS = {
    "compiled": torch.compile,
    "parallel": nn.DataParallel,
    "both": lambda model: torch.compile(nn.DataParallel(model)),
    "compiled method": lambda model: torch.compile(model.forward),
    "compiled in place": lambda model: model.compile() or model,
}


@pytest.mark.parametrize("how", WRAPPERS)
def test_wrappers_have_the_names_of_what_they_wrap(how):
    class Scaled(nn.Linear):
        def forward(self, rows, scale):
            return super().forward(rows) * scale

    graph = trace(WRAPPERS[how](Scaled(4, 4)), (X, X), name="m", version="1").graph
    assert graph.signature.positional == ("rows", "scale")
    assert [weight.name for weight in graph.weights] == ["weight", "bias"]


def test_layers_whose_weights_are_objects_of_torch_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coded = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)))
    with pytest.raises(TraceError, match="m: 0 is a Linear of torch.ao.*quantize='int8'.*torchao"):
        trace(coded, (X,), name="m", version="1")


def of_bitsandbytes(kind, name):
    """A class as that library has them."""
    return type(name, (kind,), {"__module__": "bitsandbytes.nn.modules"})


def layer_of_bitsandbytes():
    return of_bitsandbytes(nn.Linear, "Linear4bit")(4, 4)


def derived_layer():
    return type("Own", (of_bitsandbytes(nn.Linear, "Linear8bitLt"),), {})(4, 4)


def weight_of_bitsandbytes():
    layer = nn.Linear(4, 4)
    codes = torch.zeros(8, 1, dtype=torch.uint8)
    kind = of_bitsandbytes(nn.Parameter, "Params4bit")
    layer.weight = torch.Tensor._make_subclass(kind, codes)
    return layer


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (layer_of_bitsandbytes, "0 is a Linear4bit of bitsandbytes"),
        (derived_layer, "0 is a Own of bitsandbytes"),
        (weight_of_bitsandbytes, "0 is a Linear whose weight is a Params4bit of bitsandbytes"),
    ],
)
def test_layers_of_bitsandbytes_are_refused(made, words):
    with pytest.raises(
        TraceError, match=rf"m: {words}, which .* model.dequantize\(\), .* \(--quantize int8\)"
    ):
        trace(nn.Sequential(made()), (X,), name="m", version="1")


def test_layers_of_bitsandbytes_with_plain_weights_are_accepted():
    layer = of_bitsandbytes(nn.Embedding, "StableEmbedding")(4, 4)
    graph = trace(layer, (torch.tensor([1, 2]),), name="m", version="1").graph
    assert [weight.name for weight in graph.weights] == ["weight"]


def test_a_saved_program_keeps_positional_names_alone():
    program = torch.export.export(Masked(), (X,), {"mask": X})
    signature = trace(program, (X,), {"mask": X}, name="m", version="1").graph.signature
    assert signature.positional == ("ids",)
