"""The functions of float32 in C: how far off they are, and that loops with them become vectors."""

import ctypes
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array
from aotpack.precompile.host import find_compiler, host_flags
from aotpack.render.c.operators import c_text
from tests.render.c import forms

ARCHES = ("x86-64", "x86-64-v3") if platform.machine() == "x86_64" else ("armv8-a",)
BOUNDS = {
    "exp": 1.02,
    "exp2": 1.2,
    "expm1": 1.4,
    "log": 0.93,
    "log2": 1.2,
    "log10": 1.6,
    "log1p": 1,
    "erf": 1.7,
    "tanh": 1.34,
    "sigmoid": 2.5,
    "sinh": 1.63,
    "cosh": 1.5,
    "sin": 0.6,
    "cos": 0.6,
    "tan": 0.9,
    "atan": 1.3,
}
"""The largest error in units of the last place."""

FLUSHED = ("exp", "exp2", "sigmoid")  # their denormal results are 0
STEP = 4099  # between the bit patterns of a sample
WORST = [0.70704055, 0.63104421, 0.96961212, 1.4182405, 4.5346441, 16.635704, 17.029926, 37.778641]
"""Where log, tanh, erf, sinh, cosh, sigmoid, expm1 and exp are off most, of all float32."""


LOOPS = (*BOUNDS, "atan2")


def loop_text(name: str) -> str:
    operands = ("x[i]", "y[i]")[: OPS[name].arity]
    text = c_text(name, operands, DType.FLOAT32, DType.FLOAT32)
    return (
        f"AOT_EXPORT void all_{name}(const float *restrict x, const float *restrict y,\n"
        "        float *restrict out, int64_t n) {\n    (void)y;\n"
        "    #pragma omp simd\n"
        f"    for (int64_t i = 0; i < n; i++) out[i] = {text};\n}}"
    )


@pytest.fixture(scope="module", params=ARCHES)
def library(
    request: pytest.FixtureRequest, once: Callable[[str, Callable[[Path], object]], Path]
) -> ctypes.CDLL:
    texts = tuple(map(loop_text, LOOPS))
    arch: str = request.param
    folder = once(f"c-functions-{arch}", lambda folder: forms.library(folder, texts, arch))
    return forms.loaded(folder)


def numbers_of_every_size() -> Array:
    """Both signs, denormals, infinities and NaN; and where a function changes its form."""
    sample = np.arange(0, 1 << 32, STEP, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = [0.0, 1e-45, 0.45, 0.5, 0.625, 1, 4, 18, 87.33655, 88.72284, 126, 128]
    special += WORST
    special += [*(2.0**n for n in (-126, -24, 24, 50, 77, 104, 127)), 3.4028235e38, np.inf]
    at = np.array(special, np.float32)
    with np.errstate(over="ignore"):
        near = np.concatenate([at, np.nextafter(at, np.float32(0)), np.nextafter(at, at[-1])])
    return np.concatenate([sample, near, -near])


def computed(library: ctypes.CDLL, name: str, x: Array, y: Array) -> Array:
    out = np.zeros_like(x)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y, out)]
    getattr(library, f"all_{name}")(*pointers, ctypes.c_int64(len(x)))
    return out


def mismatches(name: str, x: Array, y: Array) -> list[str]:
    """The numbers whose results are too far off or of the wrong sign, as text."""
    with np.errstate(all="ignore"):
        want = OPS[name].compute([x.astype(np.float64)], np.dtype(np.float64))
        own = want.astype(np.float32)
        unit = np.spacing(np.abs(np.where(np.isfinite(own), own, 1))).astype(np.float64)
        bound = BOUNDS[name] * unit + (np.finfo(np.float32).tiny if name in FLUSHED else 0)
        good = np.where(np.isfinite(own), np.abs(y.astype(np.float64) - want) <= bound, y == own)
    good &= np.signbit(y) == np.signbit(own)
    good |= np.isnan(y) & np.isnan(own)
    bad = np.flatnonzero(~good)
    return [f"{name}({x[n]!r}) is {y[n]!r}, not {want[n]!r}" for n in bad[:4]]


@pytest.mark.row("C:inv15")
@pytest.mark.parametrize("name", BOUNDS)
def test_function_is_near_the_exact_result(name: str, library: ctypes.CDLL) -> None:
    x = numbers_of_every_size()
    assert mismatches(name, x, computed(library, name, x, x)) == []


@pytest.mark.row("C:inv15")
def test_angle_of_zeros_and_infinities_has_its_quarter(library: ctypes.CDLL) -> None:
    ends = np.array([0, 1e-45, 1, 3e38, np.inf], np.float32)
    y, x = (np.ravel(part) for part in np.meshgrid([*ends, *-ends], [*ends, *-ends]))
    x, y = x.astype(np.float32), y.astype(np.float32)
    found, want = computed(library, "atan2", y, x), np.arctan2(y, x)
    np.testing.assert_allclose(found, want, rtol=3e-7)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


def test_comparison_notices_two_units_and_a_sign() -> None:
    x = np.array([1.0, 2.0, 0.0], np.float32)
    y = np.sin(x.astype(np.float64)).astype(np.float32)
    assert mismatches("sin", x, y) == []
    assert "sin(np.float32(2.0))" in mismatches("sin", x, y + np.float32([0, 2e-7, 0]))[0]
    assert "sin(np.float32(0.0))" in mismatches("sin", x, y * np.float32([1, 1, -1]))[0]


@pytest.mark.skipif("clang" in find_compiler(None).version, reason="GCC's report")
def test_loops_with_functions_become_vectors(tmp_path: Path) -> None:
    texts = tuple(map(loop_text, LOOPS))
    (tmp_path / "forms.c").write_text(forms.file_text(texts))
    command = [*find_compiler(None).command, *host_flags(ARCHES[-1]), "-fopt-info-vec-optimized"]
    command += ["forms.c", "-o", "forms.so", "-lm"]
    report = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    places = {line.split(":")[1] for line in report.stderr.splitlines() if "vectorized" in line}
    lines = (tmp_path / "forms.c").read_text().splitlines()
    loops = {str(n) for n, line in enumerate(lines, 1) if "out[i] = " in line}
    assert len(loops) == len(LOOPS)
    assert loops <= places
