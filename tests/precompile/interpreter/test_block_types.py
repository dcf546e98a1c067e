"""What stands for Triton's block types while kernels are interpreted, beside Triton's own."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import triton.language as tl

from aotpack.precompile.interpreter.block_types import replacements
from aotpack.precompile.interpreter.device import pointer_type
from aotpack.runtime.errors import DeviceError
from tests.precompile.interpreter.test_device import run

FORMS = {name: (place, form) for place, name, form in replacements()}
ELEMENTS = (tl.int1, tl.int32, tl.float32, tl.bfloat16, pointer_type("float32"))
TYPES = [tl.block_type(e, s) for e, s in product(ELEMENTS, ([1], [16], [4, 1], [2, 2]))]


def own(name: str) -> Callable[..., Any]:
    place, _ = FORMS[name]
    function: Callable[..., Any] = vars(place)[name]
    return function


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types_are_those_of_triton(kind: Any) -> None:
    _, with_element = FORMS["with_element_ty"]
    _, is_equal = FORMS["__eq__"]
    for element in ELEMENTS:
        made, expected = with_element(kind, element), own("with_element_ty")(kind, element)
        assert made == expected and str(made) == str(expected) and made.numel == expected.numel
    for other in (*TYPES, *ELEMENTS, tl.block_type(kind.element_ty, kind.shape), 16):
        assert is_equal(kind, other) == own("__eq__")(kind, other)


@pytest.mark.parametrize("kind", [*TYPES, *ELEMENTS], ids=str)
def test_tensors_are_those_of_triton(kind: Any) -> None:
    _, make = FORMS["__init__"]
    made, expected = object.__new__(tl.tensor), tl.tensor(None, kind)
    make(made, None, kind)
    assert vars(made).keys() == vars(expected).keys()
    assert (made.type, made.dtype) == (kind, expected.dtype)
    assert made.shape.values == expected.shape.values and made.numel == expected.numel
    assert made.shape.type.types == expected.shape.type.types


def test_shapes_that_do_not_fit_are_refused() -> None:
    x = np.zeros(16, np.int32)
    run("tl.store(x + i, i + tl.arange(0, 1))", 16, x=x)
    assert np.array_equal(x, np.arange(16))
    with pytest.raises(DeviceError, match="incompatible dimensions at index 0: 16 and 8"):
        run("tl.store(x + i, i + tl.arange(0, 8))", 16, x=x)
