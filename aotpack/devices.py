"""What GPUs offer: a row for each, from whose figures the thresholds of ``schedule/`` follow.

Rows hold a vendor's figures of a common device of each compute capability (data sheets, CUDA C++
Programming Guide), and what was measured there. Thresholds were measured on an H200, so that is
the device for which schedules are made unless another is named: one row is all that needs.
"""

from dataclasses import dataclass

COPY_SHARE = 0.9  # of the vendor's bandwidth that a copy reaches
RESERVED_SHARED = 1024  # bytes of shared memory that a block takes beside what it asks for


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A device: its multiprocessors, and what each or all of them have.

    ``clusters`` says how many clusters of a size run at once, one block a multiprocessor; a device
    on which that was not counted has none. ``launch`` is what one launch more costs in a graph;
    ``read_rate`` and ``write_rate`` are those of one multiprocessor while the others are idle.
    These three defaults are an H200's (2026-11-22, docs/measurements/h200_row_residency.csv).
    """

    name: str
    arch: int  # compute capability, major * 10 + minor
    multiprocessors: int
    threads: int  # that a multiprocessor runs at once
    registers: int = 65_536  # of 32 bits, of a multiprocessor
    shared: int  # bytes, the most for a block
    l2: int  # bytes
    bandwidth: float  # of memory, bytes a second
    arithmetic: float  # of tensor cores, operations a second: 16-bit factors, dense
    largest_cluster: int = 1  # blocks, of every size up to which clusters are portable
    clusters: tuple[tuple[int, int], ...] = ()
    has_descriptors: bool = False  # a copy engine that takes tensor descriptors
    has_early_start: bool = False  # programmatic dependent launch
    launch: float = 1.0  # us
    read_rate: float = 87_000  # bytes a us
    write_rate: float = 29_000

    @property
    def threads_at_once(self) -> int:
        """The threads that all multiprocessors run at once."""
        return self.multiprocessors * self.threads

    @property
    def longest_row(self) -> int:
        """The elements of a row that a program keeps in registers: in a quarter of them."""
        return self.registers // 4

    @property
    def launch_bytes(self) -> int:
        """What memory moves in the time of a launch, rounded down to a power of two."""
        return rounded_down(self.launch * self.bandwidth / 1e6 * COPY_SHARE)


def rounded_down(number: float) -> int:
    """The largest power of two up to a number; 0 where there is none."""
    return 1 << int(number).bit_length() - 1 if number >= 1 else 0


A100 = Gpu(
    name="A100",
    arch=80,
    multiprocessors=108,
    threads=2048,
    shared=166_912,
    l2=40_000_000,
    bandwidth=2.04e12,
    arithmetic=312e12,
)
A10 = Gpu(
    name="A10",
    arch=86,
    multiprocessors=72,
    threads=1536,
    shared=101_376,
    l2=6_000_000,
    bandwidth=0.60e12,
    arithmetic=125e12,
)
L40S = Gpu(
    name="L40S",
    arch=89,
    multiprocessors=142,
    threads=1536,
    shared=101_376,
    l2=96_000_000,
    bandwidth=0.86e12,
    arithmetic=362e12,
)
H200 = Gpu(
    name="H200",
    arch=90,
    multiprocessors=132,
    threads=2048,
    shared=232_448,
    l2=50_000_000,
    bandwidth=4.80e12,
    arithmetic=989e12,
    largest_cluster=8,
    clusters=((2, 66), (4, 30), (8, 15)),
    has_descriptors=True,
    has_early_start=True,
)
B200 = Gpu(
    name="B200",
    arch=100,
    multiprocessors=148,
    threads=2048,
    shared=232_448,
    l2=126_000_000,
    bandwidth=8.00e12,
    arithmetic=2250e12,
    largest_cluster=8,
    has_descriptors=True,
    has_early_start=True,
)
B300 = Gpu(
    name="B300",
    arch=103,
    multiprocessors=148,
    threads=2048,
    shared=232_448,
    l2=126_000_000,
    bandwidth=8.00e12,
    arithmetic=2250e12,
    largest_cluster=8,
    has_descriptors=True,
    has_early_start=True,
)
RTX_PRO_6000 = Gpu(
    name="RTX PRO 6000",
    arch=120,
    multiprocessors=188,
    threads=1536,
    shared=101_376,
    l2=128_000_000,
    bandwidth=1.79e12,
    arithmetic=500e12,
    largest_cluster=8,
    has_descriptors=True,
    has_early_start=True,
)
GPUS = {gpu.arch: gpu for gpu in (A100, A10, L40S, H200, B200, B300, RTX_PRO_6000)}


def first_with_clusters() -> int:
    """The oldest architecture on which the programs of a row can wait for each other."""
    return min(arch for arch, gpu in GPUS.items() if gpu.largest_cluster > 1)


def first_with_early_start() -> int:
    """The oldest architecture that knows programmatic dependent launch."""
    return min(arch for arch, gpu in GPUS.items() if gpu.has_early_start)


def of_l2(measured: int, gpu: Gpu) -> int:
    """The bytes that are the part of a multiprocessor's share of L2 that so many are on an H200."""
    return measured * gpu.l2 * H200.multiprocessors // (H200.l2 * gpu.multiprocessors)
