"""The text of a kernel with all that compiling and launching it needs."""

from dataclasses import dataclass, field

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import MAX_ARCH
from aotpack.ir.kernels.traffic import NO_WORK, Work
from aotpack.ir.symbolic.integers import Int


@dataclass(frozen=True, slots=True)
class KernelArg:
    """A parameter of a rendered kernel: a pointer to ``dtype`` elements, or an integer size.

    ``dtype`` is the element type behind a pointer. Sizes are int32 or int64 as ``dtype`` says.
    ``multiple`` is a guarantee: the address, or the size, is a multiple of this power of two.
    A kernel stores only through pointers that are ``is_written``; a second run of one that is
    ``is_in_place`` gives something else, unless what was there is put back.
    """

    name: str
    dtype: DType
    is_pointer: bool
    multiple: int = 1
    is_written: bool = field(kw_only=True)
    is_in_place: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A descriptor of a rectangle of memory, which the text calls ``name``.

    It lies ``offset`` elements behind the argument ``pointer`` and has ``sizes``, ``strides``
    apart, the innermost last. A program reads blocks of ``box`` elements.
    """

    name: str
    pointer: str
    offset: Int
    sizes: tuple[Int, ...]
    strides: tuple[Int, ...]
    box: tuple[int, ...]


RING_START = 1024  # bytes; a ring may use part of the last cache line to align its start


@dataclass(frozen=True, slots=True)
class KernelSource:
    """One compilable kernel: its text, entry point ``name``, launch configuration.

    Triton text is complete (it imports triton itself) and every block size in it is a literal.
    ``arches`` holds the compute capabilities this configuration is for, as ranges ``(low, high)``
    of major*10+minor; a kernel is compiled for a target only if the target lies in one. Each
    program of a launch is a thread block cluster of ``cluster_size``, which the GPU runs at once.
    Behind ``RING_START`` bytes for Triton it has ``ring_bytes`` of shared memory, and
    ``shared_split`` is its tile's. A kernel that ``starts_early`` uses programmatic dependent
    launch, on GPUs that have it; one that ``reads_early`` reads state and inputs before it waits.
    Its text makes the descriptors of ``maps`` at its begin; compiled code takes them as parameters
    behind ``args``.
    """

    name: str
    text: str
    args: tuple[KernelArg, ...]
    num_warps: int
    num_stages: int
    arches: tuple[tuple[int, int], ...] = ((0, MAX_ARCH),)
    language: str = "triton"  # or "c": the text is a part of the build's one C file
    is_spare: bool = False  # a candidate; left out if it does not compile
    work: Work = NO_WORK  # of the first launch that takes it
    cluster_size: int = 1
    shared_split: int = 0
    ring_bytes: int = 0
    starts_early: bool = False
    reads_early: bool = False
    late_text: str = ""  # of one that starts early, for GPUs that cannot
    maps: tuple[TensorMap, ...] = ()
    gluon_text: str = (
        ""  # with roles of warps or layouts, for GPUs with descriptors; takes ``maps``
    )
    gluon_maps: tuple[TensorMap, ...] = ()  # and these
    gluon_warps: int = 0  # of its first role; 0: ``num_warps``

    @property
    def all_maps(self) -> tuple[TensorMap, ...]:
        """The descriptors that the host makes for one text or the other."""
        return (*self.maps, *self.gluon_maps)

    def is_for(self, arch: int) -> bool:
        """True when a launch on this compute capability may pick the kernel."""
        return any(low <= arch <= high for low, high in self.arches)
