"""Models that ask how an argument is kept, which no guard of a package tells."""

import pytest
import torch

import aotpack
from aotpack.errors import TraceError

from ..e2e.models import Function

X = torch.arange(12.0).reshape(3, 4)
HIDDEN = {
    "base": lambda x: x * 2 if x._base is not None else x * 3,
    "is_view": lambda x: x * 2 if x._is_view() else x * 3,
    "version": lambda x: x * 2 if x._version else x * 3,
    "offset": lambda x: x * 2 if x.storage_offset() else x * 3,
    "memory": lambda x: x * 2 if x.untyped_storage().nbytes() > 4 * x.numel() else x * 3,
    "typed memory": lambda x: x * 2 if x._typed_storage().nbytes() > 4 * x.numel() else x * 3,
    "by name": lambda x: x * 2 if getattr(x, "_base", None) is not None else x * 3,
    "negative": lambda x: x * 2 if x.is_neg() else x * 3,
    "changed": lambda x: x.add_(1) if x._base is None else x.add_(2),
}
WRITTEN = X.clone().add_(0)
EXAMPLES = {"plain": X, "view": torch.cat([X, X])[3:], "written": WRITTEN}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("function", HIDDEN.values(), ids=HIDDEN)
def test_a_model_that_asks_for_it_is_refused(function, example):
    with pytest.raises(TraceError, match="another function than the model|changes x"):
        aotpack.compile(Function(function, 1), (example,), target="interpreter")


def test_conjugates_are_refused():
    model = Function(lambda x: x * 2 if x.is_conj() else x * 3, 1)
    with pytest.raises(TraceError, match="(?s)kept as negatives or conjugates.*look for _base"):
        aotpack.compile(model, (X + 1j * X,), target="interpreter")


def test_what_has_no_negative_hides_no_other_argument():
    model = Function(lambda x, y: (x * 2 if x.is_neg() else x * 3) + y.float(), 2)
    example = X, torch.ones(4).to(torch.float8_e4m3fn)
    with pytest.raises(TraceError, match="kept as negatives or conjugates"):
        aotpack.compile(model, example, target="interpreter")


def _summed(x):
    return x.contiguous() if x._is_view() else x * 1


def _filled(x, y):
    start = x.storage_offset()
    x.fill_(x.storage_offset() - start)
    return x + y


def test_a_model_whose_elements_do_not_follow_it_is_accepted():
    model = aotpack.compile(Function(_summed, 1), (X,), target="interpreter")
    assert torch.equal(torch.as_tensor(model(torch.cat([X, X])[3:])), X)
    changing = aotpack.compile(Function(_filled, 2), (X.clone(), X), target="interpreter")
    given = X.clone()
    assert torch.equal(torch.as_tensor(changing(given, X)), X)
    assert torch.equal(given, torch.zeros_like(X))
