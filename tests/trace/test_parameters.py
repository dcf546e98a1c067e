"""What a call may pass by position, and by which names."""

import pytest
import torch
from torch import nn

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


def test_a_saved_program_keeps_positional_names_alone():
    program = torch.export.export(Masked(), (X,), {"mask": X})
    signature = trace(program, (X,), {"mask": X}, name="m", version="1").graph.signature
    assert signature.positional == ("ids",)
