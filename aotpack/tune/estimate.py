"""The expected time of a launch: bytes over bandwidth, or products over peak, and a fixed part.

Kernels are measured against it; it does not choose tiles: all forms of a launch do the same work.
Checked against an H200 by ``tools/check_cost_model.py`` (2026-11-21,
docs/measurements/h200_tuning.csv).
"""

from aotpack.devices import COPY_SHARE, Gpu

ARITHMETIC_SHARE = 0.75  # of the vendor's peak that a large product reaches
FIXED_MICROSECONDS = 1.5  # a launch in a graph, and the first and last access to memory
PRODUCT_MICROSECONDS = 2.5  # more: the first tiles of factors, and the sums in order


def estimate(moved: int, flops: int, gpu: Gpu) -> float:
    """Microseconds for bytes of memory and operations of products."""
    memory = moved / (gpu.bandwidth * COPY_SHARE)
    products = flops / (gpu.arithmetic * ARITHMETIC_SHARE)
    fixed = FIXED_MICROSECONDS + (PRODUCT_MICROSECONDS if flops else 0)
    return fixed + 1e6 * max(memory, products)
