"""Programmatic dependent launch: kernels that start while the launch before them drains.

gdc_wait(): wait until the launches before this one have ended and their writes are visible
gdc_launch_dependents(): the next launch may start once all programs of this one have come here

Kernels of few programs begin with the first and end with the second. So launches end in order, and
part of the launch cost overlaps with the last programs of the launch before. An earlier trigger
would let waiting programs take multiprocessors unevenly from those that compute. For many short
programs the two instructions cost more than a launch saves: 65536 programs of a gelu took 82 us,
and 67 without. GPUs older than 9.0, and the interpreter, have neither (2026-11-22,
docs/decisions/012-programmatic-dependent-launch.md).

Source: CUDA C++ Programming Guide, programmatic dependent launch and synchronization.
"""

import re

from aotpack.devices import H200, first_with_early_start, rounded_down

FIRST_ARCH = first_with_early_start()
MOST_PROGRAMS = rounded_down(8 * H200.multiprocessors)  # about eight for each, measured there
_LINES = re.compile(r"^ +gdc_(?:launch_dependents|wait)\(\)\n", re.MULTILINE)
_IMPORT = re.compile(r"^from triton\.language\.extra\.cuda import gdc_.*\n", re.MULTILINE)


def without_early_start(text: str) -> str:
    """The kernel's text without programmatic dependent launch."""
    return _LINES.sub("", _IMPORT.sub("", text))
