"""The device model: a row of figures for each GPU, from which ``schedule/`` derives thresholds.

Rows hold the vendor's figures of a common device of each compute capability (data sheets, CUDA C++
Programming Guide) and measurements. Thresholds were measured on an H200, which is therefore the
default device of schedules; another device needs one more row.
"""

import re
from dataclasses import dataclass, replace

ADA = 89  # conversions of 8-bit floats
HOPPER = 90  # wgmma, clusters, tensor descriptors
BLACKWELL = 100  # data-centre GPUs
LATER = 110  # consumer Blackwell: mma, as before Hopper
COPY_SHARE = 0.9  # of the vendor's bandwidth that a copy reaches
RESERVED_SHARED = 1024  # bytes of shared memory that the system reserves for each block
LARGEST_SPLIT = 132 * 1024  # bytes of shared memory; more leaves too little L1 cache for loads
SPLIT_MARGIN = 4096  # bytes asked for beyond a size; at its percentage itself kernels may differ
SHARED_SIZES = 8, 16, 32, 64, 100, 132, 164, 196, 228  # KiB that a multiprocessor may have, 8.0 on


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A device: its multiprocessors, and the resources of one or all of them.

    ``clusters`` gives for a cluster size how many run at once, one block a multiprocessor; empty if
    not measured. ``launch`` is the cost of one more launch in a graph; ``read_rate`` and
    ``write_rate`` are those of one multiprocessor while the others are idle. These three defaults
    are an H200's (2026-11-22,
    docs/measurements/h200_row_residency.csv).
    """

    name: str
    arch: int  # compute capability, major * 10 + minor
    multiprocessors: int
    threads: int  # resident threads of a multiprocessor
    registers: int = 65_536  # of 32 bits, of a multiprocessor
    shared: int  # bytes, the most for a block
    l2: int  # bytes
    bandwidth: float  # of memory, bytes a second
    arithmetic: float  # of tensor cores, operations a second: 16-bit factors, dense
    largest_cluster: int = 1  # blocks of a cluster, the portable maximum
    clusters: tuple[tuple[int, int], ...] = ()
    has_descriptors: bool = False  # a copy engine that takes tensor descriptors
    has_early_start: bool = False  # programmatic dependent launch
    launch: float = 1.0  # us
    read_rate: float = 87_000  # bytes a us
    write_rate: float = 29_000

    @property
    def threads_at_once(self) -> int:
        """The resident threads of all multiprocessors."""
        return self.multiprocessors * self.threads

    @property
    def longest_row(self) -> int:
        """The most elements of a row in one program's registers: a quarter of the registers."""
        return self.registers // 4

    @property
    def launch_bytes(self) -> int:
        """The bytes that memory moves in the time of a launch, down to a power of two."""
        return rounded_down(self.launch * self.bandwidth / 1e6 * COPY_SHARE)


def rounded_down(number: float) -> int:
    """The largest power of two up to a number; 0 if there is none."""
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
B300 = replace(B200, name="B300", arch=103)
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
PRODUCTS = {  # compute capabilities of products whose names people give, also of those too old
    70: ("V100",),
    75: ("T4", "RTX 2080"),
    80: ("A100", "A30"),
    86: ("A10", "A10G", "A40", "A16", "RTX A6000", "RTX 3090", "RTX 3080"),
    89: ("L4", "L40", "L40S", "RTX 4090", "RTX 4080", "RTX 6000 Ada"),
    90: ("H100", "H200", "H800", "H20", "GH200"),
    100: ("B200", "GB200", "B100"),
    103: ("B300", "GB300"),
    110: ("Jetson Thor",),
    120: ("RTX PRO 6000", "RTX 5090", "RTX 5080", "RTX 5070"),
    121: ("GB10", "DGX Spark"),
}
GPUS = {gpu.arch: gpu for gpu in (A100, A10, L40S, H200, B200, B300, RTX_PRO_6000)}


def first_with_clusters() -> int:
    """The oldest architecture with thread block clusters."""
    return min(arch for arch, gpu in GPUS.items() if gpu.largest_cluster > 1)


def portable_cluster() -> int:
    """The largest cluster that every GPU with clusters takes."""
    return min(gpu.largest_cluster for gpu in GPUS.values() if gpu.largest_cluster > 1)


def first_with_early_start() -> int:
    """The oldest architecture with programmatic dependent launch."""
    return min(arch for arch, gpu in GPUS.items() if gpu.has_early_start)


def of_l2(measured: int, gpu: Gpu) -> int:
    """Scale bytes ``measured`` on an H200 by the ratio of L2 bytes per multiprocessor."""
    return measured * gpu.l2 * H200.multiprocessors // (H200.l2 * gpu.multiprocessors)


def arch_of_product(name: str) -> int | None:
    """The compute capability of a product such as "H100" or "rtx-4090"; None if unknown."""
    spelt = re.sub(r"nvidia|geforce|[\W_]", "", name.lower())
    for arch, products in PRODUCTS.items():
        names = {product.lower().replace(" ", "") for product in products}
        if spelt in names or f"rtx{spelt}" in names:
            return arch
    return None
