"""Parts of a module that are computed where they are read."""

import pytest
from torch import nn

from aotpack.trace.layers.properties import with_property


def test_a_module_may_have_several_properties():
    module, other = nn.Linear(2, 2), nn.Linear(2, 2)
    with_property(module, "first", lambda one: one.in_features)
    with_property(module, "second", lambda one: one.first + 1)
    assert (module.first, module.second) == (2, 3)
    assert isinstance(module, nn.Linear) and type(module).__name__ == "Linear"
    with pytest.raises(AttributeError):
        _ = other.first
