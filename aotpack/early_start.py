"""Programmatic dependent launch: kernels that start while the launch before them drains.

Kernels of few programs begin with a wait until the launches before them are done and what these
wrote is seen, and end by admitting the next launch. So a launch is over only when
all before it are: work keeps its order, and a part of what a launch costs is paid while the last
programs of the one before it are still at work. Programs that start earlier would share the
multiprocessors of those that compute, unevenly. Where programs are many and short, the two cost
each of them more than a launch saves: 65536 programs of a gelu took 82 us, and 67 without. GPUs
older than 9.0, and the interpreter, know neither (docs/benchmarks.md, "Launches that start early",
2026-11-22).

Source: CUDA C++ Programming Guide, programmatic dependent launch and synchronization.
"""

from aotpack.devices import H200, first_with_early_start, rounded_down

FIRST_ARCH = first_with_early_start()
MOST_PROGRAMS = rounded_down(8 * H200.multiprocessors)  # some eight for each, measured there
