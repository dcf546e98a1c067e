"""Descriptors that compiled code takes as parameters, where the text of a kernel makes them.

    def k(x_ptr, m):                                                def k(x_ptr, m, lhs_block):
        lhs_block = tl.make_tensor_descriptor(x_ptr, ...)      ->       lhs = lhs_block.load(...)
        lhs = lhs_block.load(...)

A program takes 0.7 us to make one; the host makes it once for each address.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from triton.experimental.gluon import language as gl

from aotpack.ir.dtypes import DType
from aotpack.precompile.signature import parameter_type
from aotpack.stages import KernelArg, TensorMap

HOST_TYPES = {8: 10, 9: 8, 10: 9}
"""CUtensorMapDataType where it is not Triton's number of an element type."""


def with_parameters(text: str, name: str, maps: Sequence[TensorMap]) -> str:
    """The text of the kernel ``name`` with its descriptors as last parameters."""
    lines = text.splitlines(keepends=True)
    made = tuple(f"{one.name} = tl.make_tensor_descriptor(" for one in maps)
    kept = [line for line in lines if not line.lstrip().startswith(made)]
    head = [number for number, line in enumerate(kept) if line.startswith(f"def {name}(")]
    if len(lines) - len(kept) != len(maps) or len(head) != 1:
        raise ValueError(f"the kernel {name} does not make {[one.name for one in maps]} once each")
    (place,) = head
    names = ", ".join(one.name for one in maps)
    kept[place] = kept[place].replace("):", f", {names}):")
    return "".join(kept)


def map_type(one: TensorMap, args: Sequence[KernelArg]) -> str:
    """The type of a parameter in Triton's spelling."""
    dtype: DType = next(arg.dtype for arg in args if arg.name == one.pointer)
    box = ",".join(map(str, one.box))
    return f"tensordesc<{parameter_type(dtype, is_pointer=False)}[{box}]>"


def gluon_type(kind: str) -> str:
    """A type as Gluon spells it: a descriptor has the layout of its block in shared memory."""
    found = re.fullmatch(r"tensordesc<(\w+)\[([\d,]+)\]>", kind)
    if found is None:
        return kind
    box = [int(side) for side in found[2].split(",")]
    element = gl.float16 if found[1] == "fp16" else gl.bfloat16
    layout = gl.NVMMASharedLayout.get_default_for(box, element)
    return f"tensordesc<{found[1]}[{', '.join(map(str, box))}],{layout!r}>"


def compiled_maps(found: Any) -> str:
    """What the code expects of each descriptor, as JSON: of the compiler's metadata, or of none."""
    facts = [
        {
            "swizzle": one["swizzle"],
            "element": HOST_TYPES.get(one["elem_type"], one["elem_type"]),
            "box": list(one["block_size"]),
        }
        for one in found or ()
    ]
    return json.dumps(facts) if facts else ""
