"""A module out of a function, so that a test case is one line."""

from collections.abc import Callable, Container
from typing import Any

import pytest
from torch import nn

from aotpack.stages import Traced
from aotpack.trace import trace


@pytest.fixture
def trace_function() -> Callable[..., Traced]:
    """Traces ``forward(self, ...)`` as the method of a module with the given submodules."""
    return _trace_function


def _trace_function(
    forward: Callable[..., Any],
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    modules: dict[str, nn.Module] | None = None,
    dynamic_shapes: Any = None,
    reserved: Container[str] = (),
) -> Traced:
    module = type("Model", (nn.Module,), {"forward": forward})()
    for name, child in (modules or {}).items():
        module.add_module(name, child)
    return trace(
        module,
        args,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        name="m",
        version="1",
        reserved=reserved,
    )
