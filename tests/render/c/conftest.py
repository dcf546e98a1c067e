"""The library of all operators and reductions in C."""

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.render.c import forms


@pytest.fixture(scope="module", params=forms.EFFORTS)
def library(
    request: pytest.FixtureRequest, once: Callable[[str, Callable[[Path], object]], Path]
) -> ctypes.CDLL:
    """Each text compiled for an architecture."""
    arch: str = request.param
    folder = once(
        f"c-forms-{arch}", lambda folder: forms.compile_all(folder, arch, forms.EFFORTS[arch])
    )
    return forms.loaded(folder)
