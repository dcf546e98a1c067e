"""Generate one Triton kernel for each operand type that computes every operator of the table.

Run as a program, it executes them, interpreted on the host or on a GPU, and saves the results:
``python triton_forms.py out.npz cpu|cuda``. Rows of ``out`` are operators, in the table's order.
"""

import itertools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.opinfo import OpInfo
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array

HEAD = (
    "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n"
)
COMPUTE = tuple(dtype for dtype in DType if dtype.compute is dtype)
BLOCK = 1024
ROWS, COLUMNS = 4, 64
INTEGER_DIVISIONS = ("floordiv", "truncdiv", "remainder", "fmod")
CASTS = {
    "float": (DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.UINT8, DType.BOOL),
    "int": COMPUTE,
    "uint": COMPUTE,
    "bool": COMPUTE,
}


@dataclass(frozen=True, slots=True)
class Form:
    """One operator on one type, with its result type."""

    info: OpInfo
    operand: DType
    result: DType
    ends_in: DType | None = None

    @property
    def text(self) -> str:
        names = ("c", "x", "y") if self.info.name == "where" else ("x", "y")
        names = names[: self.info.arity]
        return self.info.triton(names, self.operand, self.result, ends_in=self.ends_in)

    def __str__(self) -> str:
        return f"{self.info.name}({self.operand}) -> {self.ends_in or self.result}"


def forms(operand: DType) -> list[Form]:
    """Every operator that accepts the type; of casts, one for each type to cast to."""
    found: list[Form] = []
    for info in OPS.values():
        if not info.accepts(operand):
            continue
        if info.name == "cast":
            found += [Form(info, operand, dtype) for dtype in CASTS[operand.facts.kind]]
            continue
        result = info.result_type(operand, operand)
        found.append(Form(info, operand, result))
        if operand is DType.FLOAT32:
            found += [Form(info, operand, result, ends_in) for ends_in in info.fast_texts]
    return found


def wide(operand: DType) -> DType:
    """The type results are stored in: it holds each result of the operand's forms."""
    return DType.FLOAT64 if operand.is_float else DType.INT64


def stored(dtype: DType, operand: DType) -> DType:
    """A float result of an integer operand is stored by its bits."""
    if not operand.is_float and dtype.is_float:
        return DType.FLOAT64
    return wide(operand)


def kernel_name(operand: DType) -> str:
    return f"forms_{operand}"


def kernel_text(operand: DType) -> str:
    """A kernel over one block with a row of ``out`` for each form."""
    lines = [
        "@triton.jit",
        f"def {kernel_name(operand)}(x_ptr, y_ptr, c_ptr, out_ptr):",
        f"    i = tl.arange(0, {BLOCK})",
        "    x = tl.load(x_ptr + i)",
        "    y = tl.load(y_ptr + i)",
        "    c = tl.load(c_ptr + i).to(tl.int1)",
    ]
    if operand is DType.BOOL:
        lines += ["    x = x.to(tl.int1)", "    y = y.to(tl.int1)"]
    for row, form in enumerate(forms(operand)):
        target = stored(form.result, operand)
        kept = f"v{row}.to({target.facts.triton})"
        if target is not wide(operand):
            kept += ".to(tl.int64, bitcast=True)"
        lines.append(f"    v{row} = {form.text}")
        lines.append(f"    tl.store(out_ptr + {row * BLOCK} + i, {kept})")
    return "\n".join(lines) + "\n"


def reduction_name(monoid: Monoid, dtype: DType, *, block: bool) -> str:
    return f"reduce_{monoid.name}_{dtype}_{'block' if block else 'pairs'}"


def reduction_text(monoid: Monoid, dtype: DType, *, block: bool) -> str:
    """Rows of a tile reduced: in one step, or column halves in pairs first, as a loop does."""
    name = reduction_name(monoid, dtype, block=block)
    count = len(monoid.states)
    lines = [
        "@triton.jit",
        f"def {name}(x_ptr, {', '.join(f'out{n}_ptr' for n in range(monoid.outputs))}):",
        f"    i = tl.arange(0, {ROWS})[:, None]",
    ]
    half = COLUMNS // 2
    for part in ("a", "b"):
        offset = half * (part == "b")
        lines += [
            f"    j{part} = tl.arange(0, {half})[None, :] + {offset} + i * 0",
            f"    index{part} = j{part}.to(tl.int64)",
            f"    x{part} = tl.load(x_ptr + i * {COLUMNS} + j{part})",
        ]
        if dtype is DType.BOOL:
            lines.append(f"    x{part} = x{part}.to(tl.int1)")
        identities = monoid.identity_triton(dtype)
        for n, (text, own) in enumerate(zip(monoid.lift_triton, identities, strict=True)):
            lifted = text.format(f"x{part}", index=f"index{part}", type=dtype.facts.triton)
            lines.append(f"    {part}{n} = tl.where(j{part} < {COLUMNS - 5}, {lifted}, {own})")
    pairs = ", ".join(f"{part}{n}" for part in "ab" for n in range(count))
    states = ", ".join(f"s{n}" for n in range(count))
    lines.append(f"    {states} = {monoid.combine_name}({pairs})")
    kind = monoid.block_triton.get(dtype.facts.kind)
    if block and kind:
        lines.append(f"    s0 = {kind.format('s0', axis=1)}")
    elif monoid.across_triton:
        lines.append(f"    {states} = {monoid.across_name}({states}, 1)")
    else:
        given = "s0" if count == 1 else f"({states})"
        lines.append(f"    {states} = tl.reduce({given}, 1, {monoid.combine_name})")
    for n, text in enumerate(monoid.finalise_triton):
        result = text.format(*(f"s{m}" for m in range(count)))
        lines.append(f"    tl.store(out{n}_ptr + tl.arange(0, {ROWS}), {result})")
    return "\n".join(lines) + "\n"


def reductions() -> list[tuple[Monoid, DType, bool]]:
    """Every (monoid, type, by the block's shortcut or by pairs)."""
    return [
        (monoid, dtype, block)
        for monoid, dtype in itertools.product(MONOIDS.values(), COMPUTE)
        if monoid.accepts(dtype)
        for block in ((False, True) if dtype.facts.kind in monoid.block_triton else (False,))
    ]


def module_text() -> str:
    parts = [kernel_text(operand) for operand in COMPUTE]
    parts += [monoid.combine_triton for monoid in MONOIDS.values()]
    parts += [monoid.across_triton for monoid in MONOIDS.values() if monoid.across_triton]
    parts += [reduction_text(monoid, dtype, block=block) for monoid, dtype, block in reductions()]
    return HEAD + "\n\n".join(parts)


def edge_values(dtype: DType) -> Array:
    """Numbers at which operators differ: signed zeros, ends of the range, ties, denormals, NaN."""
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.facts.numpy or "")
        small = [n for n in (-9, -7, -2, -1, 0, 1, 2, 3, 7, 31, 64) if n >= limits.min]
        ends = [limits.min, limits.min + 1, limits.max - 1, limits.max]
        return np.array(small + ends, dtype.facts.numpy)
    info = np.finfo(dtype.facts.numpy or "")
    positive = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 0.1, 0.7, 1e-3, 7.3, 33.0, 88.0, 1e6, 8388609.0]
    positive += [float(info.tiny), float(info.tiny) / 8, float(info.max), np.inf]
    return np.array([sign * n for n in positive for sign in (1, -1)] + [np.nan], dtype.facts.numpy)


def operands(dtype: DType) -> tuple[Array, Array, Array]:
    """Pairs of edge values, then random ones, and a condition: ``BLOCK`` of each."""
    edges = edge_values(dtype)
    pairs = list(itertools.product(edges, edges))[:BLOCK]
    random = np.random.default_rng(0)
    rest = BLOCK - len(pairs)
    x = np.concatenate([np.array([a for a, _ in pairs]), _random(random, dtype, rest)])
    y = np.concatenate([np.array([b for _, b in pairs]), _random(random, dtype, rest)])
    numpy_type = np.dtype(dtype.facts.numpy)
    return x.astype(numpy_type), y.astype(numpy_type), np.arange(BLOCK) % 3 == 0


def _random(random: np.random.Generator, dtype: DType, count: int) -> Array:
    if dtype is DType.BOOL:
        return random.integers(0, 2, count).astype(bool)
    if dtype.is_integer:
        return random.integers(1, 100, count)
    return random.normal(0, 3, count)


def elements(dtype: DType) -> Array:
    """A tile to reduce: ordinary numbers with ties, then rows with infinities and NaN."""
    random = np.random.default_rng(1)
    if dtype is DType.BOOL:
        tile = random.integers(0, 30, (ROWS, COLUMNS)) == 0
        tile[1] = True
        return tile
    if dtype.is_integer:
        return random.integers(0, 5, (ROWS, COLUMNS)).astype(dtype.facts.numpy)
    tile = np.round(random.normal(0, 2, (ROWS, COLUMNS)), 1).astype(dtype.facts.numpy)
    tile[1, 3], tile[1, 40] = np.inf, -np.inf
    tile[2, 9] = tile[2, 41] = np.nan
    tile[3] = -np.inf
    return tile


def complete_the_interpreter() -> None:
    """It has no libdevice: give it numpy functions of the same meaning; and it cuts bfloat16."""
    from triton.language import core
    from triton.language.extra import libdevice
    from triton.runtime.interpreter import TensorHandle

    from aotpack.precompile.interpreter import bfloat16

    def interpreted(info: OpInfo) -> object:
        def call(*args: core.tensor) -> core.tensor:
            arrays = [np.asarray(arg.handle.data) for arg in args]
            result = info.compute(arrays, arrays[0].dtype)
            return core.tensor(TensorHandle(result, args[0].handle.dtype), args[0].type)

        return call

    for info in OPS.values():
        setattr(libdevice, {"round": "rint"}.get(info.name, info.name), interpreted(info))
    for place, name, form in bfloat16.replacements():
        setattr(place, name, form)


def main(out: str, device: str) -> None:
    import importlib.util

    import torch

    if device == "cpu":
        complete_the_interpreter()
    path = Path(out).with_suffix(".kernels.py")
    path.write_text(module_text())
    spec = importlib.util.spec_from_file_location("forms", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results: dict[str, Array] = {}
    for dtype in COMPUTE:
        given = [torch.from_numpy(array).to(device) for array in operands(dtype)]
        shape = (len(forms(dtype)), BLOCK)
        kept = torch.zeros(shape, dtype=getattr(torch, str(wide(dtype))), device=device)
        getattr(module, kernel_name(dtype))[(1,)](*given, kept)
        results[kernel_name(dtype)] = kept.cpu().numpy()
    for monoid, dtype, block in reductions():
        name = reduction_name(monoid, dtype, block=block)
        tile = torch.from_numpy(elements(dtype)).to(device)
        targets = [
            torch.zeros(ROWS, dtype=getattr(torch, str(own)), device=device)
            for own in monoid.result_dtypes(dtype)
        ]
        getattr(module, name)[(1,)](tile, *targets)
        for number, target in enumerate(targets):
            results[f"{name}_{number}"] = target.cpu().numpy()
    np.savez(out, **results)


if __name__ == "__main__":
    if sys.argv[2] == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    main(sys.argv[1], sys.argv[2])
