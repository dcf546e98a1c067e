"""What recording golden data may cost a build: memory and time, by estimate."""

import math
from dataclasses import replace

from torch.export import ExportedProgram

from aotpack.trace.golden.cost import Cost, cost_of

MOST_BYTES = 4 * 2**30  # that a run may hold
MOST_SECONDS = 60.0  # of the reference, by estimate
MOST_EAGER_SECONDS = 240.0
_LARGE_SECONDS, _LARGE_BYTES = 2.0, 2**28  # of a run at large sizes


def why_not_compared(program: ExportedProgram) -> str:
    """Why the program is not run in its own types; nothing if it is."""
    return _excess(cost_of(program.graph_module, wide=False), MOST_EAGER_SECONDS)


def why_left_out(program: ExportedProgram, size: float) -> str:
    """Why golden data are not recorded at all; nothing if they are."""
    if size == 0:
        return "it was built with golden data of none"
    excess = why_not_compared(program)
    if size == math.inf or not excess:
        return ""
    return f"a run of the model on the example {excess}; build with --golden full to record it"


def why_without_reference(program: ExportedProgram, size: float) -> str:
    """Why results are compared with eager's own, not with float64; nothing if they are not."""
    excess = _excess(cost_of(program.graph_module, wide=True), MOST_SECONDS)
    return "" if size == math.inf or not excess else f"the float64 reference {excess}"


def share_of_large(program: ExportedProgram) -> float:
    """What a run on the example takes of what one at large sizes may, without its calls."""
    cost = replace(cost_of(program.graph_module, wide=False), calls=0)
    return max(cost.seconds / _LARGE_SECONDS, cost.held / _LARGE_BYTES)


def _excess(cost: Cost, seconds: float) -> str:
    if cost.held > MOST_BYTES:
        return f"holds {cost.held / 1e9:.1f} GB, more than {MOST_BYTES / 1e9:.1f}"
    if cost.seconds > seconds:
        return f"takes about {cost.seconds:.0f} s, more than {seconds:.0f}"
    return ""
