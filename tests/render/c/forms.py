"""One C function for each operator on each operand type, and for each reduction; compiled once."""

import ctypes
import itertools
import platform
import subprocess
from pathlib import Path

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.reference import Array
from aotpack.precompile.host import find_compiler, host_flags
from aotpack.render.c.kernels import HostFileContext
from aotpack.render.c.loops.reductions import Accumulator
from aotpack.render.c.operators import c_text
from aotpack.render.c.types import C_STORED, C_TYPES
from aotpack.render.environment import render_template
from tests.ir.samples import BLOCK, COMPUTE, operands
from tests.render.operator_forms import Form, all_forms

LANES = (1, 16)
X86 = {"x86-64": "-O1", "x86-64-v3": "-O3"}  # element by element, and in vectors
EFFORTS = X86 if platform.machine() == "x86_64" else {"armv8-a": "-O3"}


def function_name(form: Form) -> str:
    return f"form_{form.info.name}_{form.operand}_{form.result}"


def function_text(form: Form) -> str:
    """A loop over arrays of operands."""
    kind, stored = C_TYPES[form.operand], C_STORED[form.operand]
    text = c_text(form.info.name, form.names, form.operand, form.result)
    return "\n".join(
        [
            f"AOT_EXPORT void {function_name(form)}(const {stored} *xs, const {stored} *ys,",
            f"        const uint8_t *cs, {C_STORED[form.result]} *out, int64_t count) {{",
            "    for (int64_t i = 0; i < count; i++) {",
            f"        const {kind} x = xs[i], y = ys[i];",
            "        const bool c = cs[i];",
            f"        const {C_TYPES[form.result]} value = {text};",
            "        out[i] = value;",
            "        (void)x; (void)y; (void)c;",
            "    }",
            "}",
        ]
    )


def reduction_name(monoid: Monoid, dtype: DType, lanes: int) -> str:
    return f"reduce_{monoid.name}_{dtype}_{lanes}"


def reduction_text(monoid: Monoid, dtype: DType, lanes: int) -> str:
    """The rows of a tile, in lanes that are joined."""
    names = tuple(f"state{n}" for n in range(len(monoid.states)))
    accumulator = Accumulator(monoid.name, dtype, names)
    outs = [f"{C_STORED[own]} *out{n}" for n, own in enumerate(monoid.result_dtypes(dtype))]
    results = accumulator.finalise([f"{name}[0]" for name in names])
    lines = [
        *accumulator.declare(lanes),
        "for (int64_t j = 0; j < columns; j++) {",
        f"    const {C_TYPES[dtype]} element = xs[i*columns + j];",
        f"    const int lane = (int)(j % {lanes});",
        *accumulator.add("lane", "element", "j"),
        "}",
        *accumulator.join(lanes),
        *(f"out{n}[i] = {text};" for n, text in enumerate(results)),
    ]
    head = f"AOT_EXPORT void {reduction_name(monoid, dtype, lanes)}(const {C_STORED[dtype]} *xs,"
    return "\n".join(
        [
            f"{head} int64_t rows, int64_t columns, {', '.join(outs)}) {{",
            "    for (int64_t i = 0; i < rows; i++) {",
            *lines,
            "    }",
            "}",
        ]
    )


def reductions() -> list[tuple[Monoid, DType, int]]:
    """Every (monoid, type, number of lanes)."""
    every = itertools.product(MONOIDS.values(), COMPUTE, LANES)
    return [(monoid, dtype, lanes) for monoid, dtype, lanes in every if monoid.accepts(dtype)]


def compile_all(folder: Path, arch: str, effort: str) -> None:
    """Makes the library of all functions in a folder."""
    texts = [function_text(form) for form in all_forms()]
    _compile(folder, (*texts, *(reduction_text(*one) for one in reductions())), arch, effort)


def library(folder: Path, texts: tuple[str, ...], arch: str) -> ctypes.CDLL:
    """A library of functions with all that kernels share."""
    _compile(folder, texts, arch, "-O3")
    return loaded(folder)


def loaded(folder: Path) -> ctypes.CDLL:
    """The library that was made in a folder."""
    return ctypes.CDLL(str(folder / "forms.so"))


def file_text(texts: tuple[str, ...]) -> str:
    """Functions, after all that kernels share."""
    return render_template("kernels.c.jinja", HostFileContext("forms", texts))


def _compile(folder: Path, texts: tuple[str, ...], arch: str, effort: str) -> None:
    (folder / "forms.c").write_text(file_text(texts))
    command = [*find_compiler(None).command, *host_flags(arch), effort, "forms.c"]
    subprocess.run([*command, "-o", "forms.so", "-lm"], cwd=folder, check=True)


def computed(library: ctypes.CDLL, form: Form) -> Array:
    """The results of a form on its operands."""
    x, y, c = operands(form.operand)
    out = np.zeros(BLOCK, form.result.facts.numpy)
    function = getattr(library, function_name(form))
    arrays = [np.ascontiguousarray(array) for array in (x, y, c)]
    function(*(ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)), ctypes.c_int64(len(x)))
    return out


def reduced(
    library: ctypes.CDLL, monoid: Monoid, dtype: DType, lanes: int, tile: Array
) -> list[Array]:
    """The results of a reduction of a tile's rows."""
    outs = [np.zeros(len(tile), own.facts.numpy) for own in monoid.result_dtypes(dtype)]
    function = getattr(library, reduction_name(monoid, dtype, lanes))
    sizes = [ctypes.c_int64(size) for size in tile.shape]
    pointers = [ctypes.c_void_p(out.ctypes.data) for out in outs]
    function(ctypes.c_void_p(tile.ctypes.data), *sizes, *pointers)
    return outs
