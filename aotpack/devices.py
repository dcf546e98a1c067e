"""What GPUs offer, by compute capability: vendors' figures of a common device of each.

``shared`` is what a block may take (CUDA programming guide); bandwidth in bytes and tensor-core
arithmetic (16-bit factors, dense) in operations, each a second.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device: its multiprocessors, and what each or all of them have."""

    name: str
    multiprocessors: int
    bandwidth: float
    arithmetic: float
    shared: int
    registers: int = 65_536  # of 32 bits, for each multiprocessor


GPUS = {
    80: Gpu("A100", 108, 2.04e12, 312e12, 166_912),
    86: Gpu("A10", 72, 0.60e12, 125e12, 101_376),
    89: Gpu("L40S", 142, 0.86e12, 362e12, 101_376),
    90: Gpu("H200", 132, 4.80e12, 989e12, 232_448),
    100: Gpu("B200", 148, 8.00e12, 2250e12, 232_448),
    103: Gpu("B300", 148, 8.00e12, 2250e12, 232_448),
    120: Gpu("RTX PRO 6000", 188, 1.79e12, 500e12, 101_376),
}
