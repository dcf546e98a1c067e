"""A check of Triton's layouts for row pipelines: each thread has a column, to copy and to read.

A row pipeline (``render/triton/loops/row_pipeline.py``) relies on it: a thread waits only for its
own copies. It is Triton's default, checked in each kernel.
"""

import re

_USE = re.compile(r'elementwise_inline_asm "[^"]*(cp\.async\.cg|ld\.shared\.v4)[^"]*".*')
_LAYOUT = re.compile(r"^#(\w+) = #ttg\.blocked<\{(.*)\}>", re.MULTILINE)
_OPERAND = re.compile(r"tensor<([\dx]+)x[^,]+, #(ttg\.slice<\{dim = 0, parent = #)?([\w.]+)")


def check_columns(ttgir: str, num_warps: int) -> None:
    """ValueError unless each thread has one column of all copies and reads."""
    layouts = dict(_LAYOUT.findall(ttgir))
    uses = list(_USE.finditer(ttgir))
    if {use[1] for use in uses} != {"cp.async.cg", "ld.shared.v4"}:
        raise ValueError("no copies to shared memory and reads there are found in Triton's text")
    for use in (found[0] for found in uses):
        for shape, row_of, name in _OPERAND.findall(use):
            one = "1, " if "x" in shape or row_of else ""
            wanted = f"1], threadsPerWarp = [{one}32], warpsPerCTA = [{one}{num_warps}]"
            columns = int(shape.split("x")[-1])
            if columns != 32 * num_warps or wanted not in layouts.get(name, ""):
                raise ValueError(
                    f"threads would read from shared memory what others copy there: {use}"
                )
