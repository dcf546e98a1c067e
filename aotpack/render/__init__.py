"""Schedule -> text: one source for each kernel variant, and the wrapper that launches them.

Rows S:P1, C:B13.
"""

from aotpack.render.c_kernels import host_file
from aotpack.render.kernels import render_kernels
from aotpack.render.wrapper import peak_bytes, render_wrapper
from aotpack.stages import Rendered, Scheduled
from aotpack.target import Target

__all__ = ["render"]


def render(scheduled: Scheduled, targets: tuple[Target, ...]) -> Rendered:
    """Render the variants that some target can pick."""
    schedule = scheduled.schedule
    kernels, steps = render_kernels(schedule, targets)
    return Rendered(
        scheduled.signature,
        scheduled.weights,
        scheduled.golden,
        kernels,
        render_wrapper(scheduled.signature, schedule, steps, targets),
        peak_bytes(schedule),
        host_file(f"{scheduled.signature.name} {scheduled.signature.version}", kernels),
    )
