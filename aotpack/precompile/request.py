"""One compilation as a value: a kernel's text with everything its binary depends on."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from aotpack.devices import GPUS
from aotpack.early_start import FIRST_ARCH
from aotpack.precompile.elf import read_machine, read_resources
from aotpack.precompile.signature import parameter_type
from aotpack.precompile.tensor_maps import map_type, with_parameters
from aotpack.stages import Binary, KernelSource
from aotpack.target import Target

RECIPE = 3  # version of this compilation; 1 did not split packed halves, 2 had no host's maps
_REQUESTING_WARPS = 4  # a group of registers, though one of them works


@dataclass(frozen=True, slots=True)
class Request:
    """Compile the function ``name`` of ``text`` for the compute capability ``arch``.

    ``types`` are the parameters in Triton's spelling ("*bf16", "i32") with their names;
    ``multiples`` their divisibility: (position, a number that divides the value). A launch makes a
    cluster of ``cluster_size`` of each program, and gives it ``ring_bytes`` of shared memory behind
    Triton's; the code depends on neither. Code that ``starts_early`` waits for earlier launches
    (programmatic dependent launch). One that ``fuses_products`` may compute a product and the sum
    it goes into in one instruction, which rounds once. ``is_text`` asks for PTX in place
    of a cubin. What Gluon's compiler makes of ``gluon_text`` is taken rather than of ``text``;
    it has parameters of ``gluon_types`` besides, and ``gluon_warps`` in its first role.
    """

    name: str
    arch: int
    types: tuple[tuple[str, str], ...]
    multiples: tuple[tuple[int, int], ...]
    num_warps: int
    num_stages: int
    cluster_size: int
    ring_bytes: int
    starts_early: bool
    text: str
    fuses_products: bool = True
    is_text: bool = False
    gluon_text: str = ""
    gluon_types: tuple[tuple[str, str], ...] = ()
    gluon_warps: int = 0

    @staticmethod
    def of(kernel: KernelSource, target: Target, *, fuses_products: bool = True) -> "Request":
        """The compilation of a rendered kernel for a target."""
        args = enumerate(kernel.args)
        starts_early = kernel.starts_early and target.arch >= FIRST_ARCH
        is_changed = kernel.starts_early and not starts_early
        text = kernel.late_text if is_changed else kernel.text
        has_descriptors = GPUS[target.arch].has_descriptors
        maps = kernel.maps if has_descriptors else ()
        gluon_text = kernel.gluon_text if has_descriptors else ""
        if maps:
            text = with_parameters(text, kernel.name, maps)
        return Request(
            name=kernel.name,
            arch=target.arch,
            types=(
                *(
                    (arg.name, parameter_type(arg.dtype, is_pointer=arg.is_pointer))
                    for arg in kernel.args
                ),
                *((one.name, map_type(one, kernel.args)) for one in maps),
            ),
            multiples=tuple((i, arg.multiple) for i, arg in args if arg.multiple > 1),
            num_warps=kernel.num_warps,
            num_stages=kernel.num_stages,
            cluster_size=kernel.cluster_size,
            ring_bytes=kernel.ring_bytes,
            starts_early=starts_early,
            is_text=target.backend == "ptx",
            text=text,
            gluon_text=gluon_text,
            gluon_types=tuple((one.name, map_type(one, kernel.args)) for one in kernel.gluon_maps)
            if gluon_text
            else (),
            gluon_warps=kernel.gluon_warps if gluon_text else 0,
            fuses_products=fuses_products,
        )

    @property
    def target(self) -> Target:
        """The target this is compiled for."""
        return Target("ptx" if self.is_text else "cuda", self.arch)

    def check(self, binary: Binary) -> None:
        """Raise ValueError for a binary of another request, or one that differs from its code."""
        facts = (binary.kernel, binary.symbol, binary.target, binary.num_ctas, binary.starts_early)
        if facts != (self.name, self.name, str(self.target), self.cluster_size, self.starts_early):
            raise ValueError(f"it is the kernel {binary.kernel} for {binary.target}")
        self._check_text(binary) if self.is_text else self._check_cubin(binary)
        extra = binary.num_warps - self.num_warps
        if extra not in (0, _REQUESTING_WARPS if self.gluon_text else 0):
            raise ValueError(f"it has {binary.num_warps} warps in place of {self.num_warps}")
        if not self.ring_bytes <= binary.shared <= GPUS[self.arch].shared:
            raise ValueError(f"it takes {binary.shared} bytes of shared memory")

    def _check_cubin(self, binary: Binary) -> None:
        if binary.suffix != "cubin" or read_machine(binary.code) != str(self.target):
            raise ValueError(f"its code is for {read_machine(binary.code)}")
        found = read_resources(binary.code, binary.symbol)
        if (found.registers, found.local_bytes) != (binary.registers, binary.spills):
            raise ValueError("its code takes other resources than it says")

    def _check_text(self, binary: Binary) -> None:
        target = re.search(rb"^\.target ([^\s,]+)", binary.code, re.MULTILINE)
        if binary.suffix != "ptx" or target is None or target[1] != f"sm_{self.arch}".encode():
            raise ValueError(f"it is no PTX for sm_{self.arch}")
        if not re.search(rb"\.visible \.entry %s\(" % self.name.encode(), binary.code):
            raise ValueError(f"its text has no kernel {self.name}")

    def as_text(self) -> str:
        """The kernel's text under a comment with all other fields: a file to compile again."""
        facts = {key: value for key, value in asdict(self).items() if key != "text"}
        return f"# {json.dumps(facts, sort_keys=True)}\n{self.text}"

    @staticmethod
    def parse(text: str) -> "Request":
        """Read what ``as_text`` wrote."""
        first, _, rest = text.partition("\n")
        facts = json.loads(first.removeprefix("# "))
        for field in ("types", "gluon_types"):
            facts[field] = tuple((name, kind) for name, kind in facts[field])
        facts["multiples"] = tuple((position, factor) for position, factor in facts["multiples"])
        return Request(text=rest, **facts)

    def key(self, compilers: Mapping[str, str]) -> str:
        """The cache key: a digest of this request, of the compilers' versions and of ``RECIPE``."""
        versions = json.dumps({**compilers, "way": RECIPE}, sort_keys=True)
        return hashlib.sha256(f"{versions}\n{self.as_text()}".encode()).hexdigest()
