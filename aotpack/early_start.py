"""Programmatic dependent launch: kernels that start while the launch before them drains.

gdc_wait(): the launches before this one are done, and what they wrote is seen
gdc_launch_dependents(): the next launch may start once all programs of this one have come here

Kernels of few programs begin with the first and end with the second. So a launch is over only when
all before it are: work keeps its order, and a part of what a launch costs is paid while the last
programs of the one before it are still at work. Programs that start earlier would share the
multiprocessors of those that compute, unevenly. Where programs are many and short, the two cost
each of them more than a launch saves: 65536 programs of a gelu took 82 us, and 67 without. GPUs
older than 9.0, and the interpreter, know neither (2026-11-22,
docs/decisions/012-programmatic-dependent-launch.md).

Source: CUDA C++ Programming Guide, programmatic dependent launch and synchronization.
"""

import re

from aotpack.devices import H200, first_with_early_start, rounded_down

FIRST_ARCH = first_with_early_start()
MOST_PROGRAMS = rounded_down(8 * H200.multiprocessors)  # some eight for each, measured there
_LINES = re.compile(r"^ +gdc_(?:launch_dependents|wait)\(\)\n", re.MULTILINE)
_IMPORT = re.compile(r"^from triton\.language\.extra\.cuda import gdc_.*\n", re.MULTILINE)


def without_early_start(text: str) -> str:
    """The text of a kernel that starts when the launch before it has ended."""
    return _LINES.sub("", _IMPORT.sub("", text))
