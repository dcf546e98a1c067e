"""Generate one Triton kernel for each operand type that computes every operator of the table.

Run as a program, it executes them, interpreted on the host or on a GPU, and saves the results:
``python forms.py out.npz cpu|cuda``. Rows of ``out`` are operators, in the table's order.
"""

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.opinfo import OpInfo
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array
from aotpack.render.triton.fast_operators import FAST_TEXTS
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.operators import triton_text
from aotpack.render.triton.types import TRITON_TYPES
from tests.ir.samples import BLOCK, COLUMNS, COMPUTE, ROWS, elements, operands
from tests.render import operator_forms
from tests.render.operator_forms import Form

HEAD = (
    "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n"
)


def text_of(form: Form) -> str:
    """The Triton text of a form."""
    return triton_text(form.info.name, form.names, form.operand, form.result, form.ends_in)


def forms(operand: DType) -> list[Form]:
    """The forms of a type, each before its cheaper ones."""
    found: list[Form] = []
    for form in operator_forms.forms(operand):
        found.append(form)
        if operand is DType.FLOAT32:
            fast = FAST_TEXTS.get(form.info.name, {})
            found += [replace(form, ends_in=ends_in) for ends_in in fast]
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
        kept = f"v{row}.to({TRITON_TYPES[target]})"
        if target is not wide(operand):
            kept += ".to(tl.int64, bitcast=True)"
        lines.append(f"    v{row} = {text_of(form)}")
        lines.append(f"    tl.store(out_ptr + {row * BLOCK} + i, {kept})")
    return "\n".join(lines) + "\n"


def reduction_name(monoid: Monoid, dtype: DType, *, block: bool) -> str:
    return f"reduce_{monoid.name}_{dtype}_{'block' if block else 'pairs'}"


def reduction_text(monoid: Monoid, dtype: DType, *, block: bool) -> str:
    """Rows of a tile reduced: in one step, or column halves in pairs first, as a loop does."""
    name, texts = reduction_name(monoid, dtype, block=block), TRITON_MONOIDS[monoid.name]
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
        identities = texts.identity(dtype)
        for n, (text, own) in enumerate(zip(texts.lift, identities, strict=True)):
            lifted = text.format(f"x{part}", index=f"index{part}", type=TRITON_TYPES[dtype])
            lines.append(f"    {part}{n} = tl.where(j{part} < {COLUMNS - 5}, {lifted}, {own})")
    pairs = ", ".join(f"{part}{n}" for part in "ab" for n in range(count))
    states = ", ".join(f"s{n}" for n in range(count))
    lines.append(f"    {states} = {texts.combine.name}({pairs})")
    kind = texts.block.get(dtype.facts.kind)
    if block and kind:
        lines.append(f"    s0 = {kind.format('s0', axis=1)}")
    elif texts.across:
        lines.append(f"    {states} = {texts.across.name}({states}, 1)")
    else:
        given = "s0" if count == 1 else f"({states})"
        lines.append(f"    {states} = tl.reduce({given}, 1, {texts.combine.name})")
    for n, text in enumerate(texts.finalise):
        result = text.format(*(f"s{m}" for m in range(count)))
        lines.append(f"    tl.store(out{n}_ptr + tl.arange(0, {ROWS}), {result})")
    return "\n".join(lines) + "\n"


def reductions() -> list[tuple[Monoid, DType, bool]]:
    """Every (monoid, type, by the block's shortcut or by pairs)."""
    return [
        (monoid, dtype, block)
        for monoid, dtype in itertools.product(MONOIDS.values(), COMPUTE)
        if monoid.accepts(dtype)
        for block in (
            (False, True) if dtype.facts.kind in TRITON_MONOIDS[monoid.name].block else (False,)
        )
    ]


def module_text() -> str:
    parts = [kernel_text(operand) for operand in COMPUTE]
    parts += [texts.combine.text for texts in TRITON_MONOIDS.values()]
    parts += [texts.across.text for texts in TRITON_MONOIDS.values() if texts.across]
    parts += [reduction_text(monoid, dtype, block=block) for monoid, dtype, block in reductions()]
    return HEAD + "\n\n".join(parts)


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
