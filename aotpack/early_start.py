"""Programmatic dependent launch: kernels that start while the launch before them drains.

Kernels of few programs begin with a wait until the launches before them are done and what these
wrote is visible, and end by admitting the next launch. So launches end in order, and part of the
launch cost overlaps with the last programs of the launch before. An earlier trigger would let
waiting programs take multiprocessors unevenly from those that compute. For many short programs the
two instructions cost more than a launch saves: 65536 programs of a gelu took 82 us, and 67 without.
GPUs older than 9.0, and the interpreter, have neither (2026-11-22,
docs/decisions/012-programmatic-dependent-launch.md).

Products of few rows are an exception (``schedule/tiles/few_rows.py``): they admit the next launch
first and request weights before they wait, and so do small kernels admit them first.

Source: CUDA C++ Programming Guide, programmatic dependent launch and synchronization.
"""

from aotpack.devices import H200, first_with_early_start, rounded_down

FIRST_ARCH = first_with_early_start()
MOST_PROGRAMS = rounded_down(8 * H200.multiprocessors)  # some eight for each, measured there
