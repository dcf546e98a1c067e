"""Rendered kernels -> binaries: several processes compile the kernels that are not in the cache."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import ceil

from aotpack.devices import (
    GPUS,
    LARGEST_SPLIT,
    RESERVED_SHARED,
    SHARED_SIZES,
    SPLIT_MARGIN,
    Gpu,
)
from aotpack.errors import CompileError
from aotpack.knobs import read_knobs
from aotpack.precompile.cache import KernelCache
from aotpack.precompile.compilers import compiler_versions
from aotpack.precompile.dump import KEEP, leave_in_dump
from aotpack.precompile.host import check_host, compile_host, host_build
from aotpack.precompile.pool import compile_all
from aotpack.precompile.request import Request
from aotpack.precompile.spills import settle
from aotpack.progress import Quiet, Reporter
from aotpack.stages import Binary, HostBuild, KernelSource, Precompiled, Rendered
from aotpack.target import CPU, INTERPRETER, Target


def check_build(targets: Sequence[Target], cpu_arch: str | None) -> None:
    """Refuse early a cache that is not safe, and what cannot be compiled on this machine."""
    KernelCache(read_knobs().cache)
    if CPU in targets:
        check_host(cpu_arch)


def precompile(
    rendered: Rendered,
    targets: Sequence[Target],
    *,
    jobs: int | None = None,
    progress: Reporter | None = None,
    cpu_arch: str | None = None,
    fuses_products: bool = True,
) -> Precompiled:
    """Compile every kernel for each of its targets.

    Unless it ``fuses_products``, a product and a sum are rounded each, as they are in C.
    """
    knobs = read_knobs()
    texts = [kernel for kernel in rendered.kernels if kernel.language == "triton"]
    requests = _requests(texts, targets, fuses_products=fuses_products)
    is_native = any(target.is_native for target in targets)
    compilers = dict(compiler_versions()) if is_native else {}
    cache = KernelCache(knobs.cache)
    reporter = progress or Quiet()
    spare = {kernel.name for kernel in texts if kernel.is_spare}
    needed = frozenset(request for request in requests if request.name not in spare)
    binaries, refused = settle(
        requests,
        lambda some: _compile(some, compilers, cache, jobs or knobs.jobs, reporter, needed),
    )
    if INTERPRETER in targets:
        binaries += [_interpreted(kernel) for kernel in texts]
    host = None
    if CPU in targets:
        made, host, compilers["cc"] = _compile_host(rendered, host_build(cpu_arch), cache, reporter)
        binaries += made
    return Precompiled(
        rendered=rendered,
        targets=tuple(targets),
        binaries=tuple(sorted(_with_carveouts(binaries, targets, rendered), key=_place)),
        compilers=compilers,
        host=host,
        refused=refused,
    )


def _requests(
    texts: Sequence[KernelSource], targets: Sequence[Target], *, fuses_products: bool
) -> list[Request]:
    """Each kernel for each GPU that it is for."""
    native = [target for target in targets if target.is_native]
    return [
        Request.of(text, target, fuses_products=fuses_products)
        for target, text in product(native, texts)
        if text.is_for(target.arch)
    ]


def _compile_host(
    rendered: Rendered, build: HostBuild, cache: KernelCache, progress: Reporter
) -> tuple[list[Binary], HostBuild, str]:
    """The one shared object of all kernels in C; a model without kernels has none."""
    kernels = tuple(kernel for kernel in rendered.kernels if kernel.language == "c")
    if kernels:
        progress.begin(f"compile C kernels ({len(kernels)} in one file)")
    return compile_host(rendered.host_file, kernels, build, cache)


def _compile(
    requests: Sequence[Request],
    compilers: dict[str, str],
    cache: KernelCache,
    jobs: int,
    progress: Reporter,
    needed: frozenset[Request],
) -> dict[Request, Binary | None]:
    """Binaries from the cache, and the others from the compiler.

    None for a kernel that does not compile and is not ``needed``. One that takes more shared memory
    than there is is compiled with fewer stages: Triton may keep stages of an epilogue's loads too.
    """
    keys = {request: request.key(compilers) for request in requests}
    found = {request: cache.get(key, request.check) for request, key in keys.items()}
    missing = [request for request, binary in found.items() if binary is None]
    progress.begin("compile kernels", len(missing))
    forms = {request: request for request in missing}
    while forms:
        asked_by = {form: request for request, form in forms.items()}
        forms = {}
        answers = compile_all(tuple(asked_by), jobs)
        try:
            for form, answer in answers:
                request = asked_by[form]
                if _is_too_large(form, answer) and form.num_stages > 1:
                    forms[request] = replace(form, num_stages=form.num_stages - 1)
                    continue
                if request in needed or _is_usable(request, answer):
                    found[request] = binary = _accept(request, answer)
                    cache.put(keys[request], binary)
                progress.step(f"{request.name} for {request.target}")
        finally:
            answers.close()
    return found


def _place(binary: Binary) -> tuple[str, str]:
    return binary.target, binary.kernel


def _with_carveouts(
    binaries: Sequence[Binary], targets: Sequence[Target], rendered: Rendered
) -> Iterator[Binary]:
    """Binaries with one split of shared memory and L1 cache for all kernels of a method.

    A multiprocessor changes its split when it is idle alone, and launches of one method overlap.
    The one for all is the largest that kernels ask for, up to ``LARGEST_SPLIT``; those that ask for
    more have their own beside it, and those of which two programs do not fit in it that of the
    driver.
    """
    native = {str(target): target.arch for target in targets if target.is_native}
    splits = {name: _splits(rendered, arch) for name, arch in native.items()}
    kernels = {kernel.name: kernel for kernel in rendered.kernels}
    asking = [one for one in binaries if kernels[one.kernel].shared_split]
    for binary in binaries:
        kernel, split = kernels[binary.kernel], splits.get(binary.target, {}).get(binary.kernel, 0)
        gpu = GPUS[native.get(binary.target, 0)] if split else None
        size = _sizes(split, gpu)[0] if gpu else 0
        together = 1 if kernel.shared_split else 2
        if not gpu or together * (binary.shared + RESERVED_SHARED) > size:
            yield binary
            continue
        shared = binary.shared
        if kernel.reads_early and kernel.cluster_size > 1:
            others = (one.shared for one in asking if one.target == binary.target)
            shared = max(shared, _beside_none(_sizes(split, gpu)[-1], min(others)))
        percent = ceil(100 * (size + SPLIT_MARGIN) / (gpu.shared + RESERVED_SHARED))
        yield replace(binary, shared=shared, carveout=min(percent, 100))


def _sizes(split: int, gpu: Gpu) -> tuple[int, ...]:
    """The smallest size of shared memory that has the bytes, and the one to which drivers round."""
    largest = gpu.shared + RESERVED_SHARED
    sizes = [min(1024 * size, largest) for size in SHARED_SIZES]
    return tuple(size for size in sizes if size >= min(split, largest))[:2]


def _beside_none(size: int, other: int) -> int:
    """The bytes of a program that shares a multiprocessor with none of so many bytes.

    Keys of attention come to a few multiprocessors at once; requests of codes there delay it.
    """
    return size - other - 2 * RESERVED_SHARED + 1024


def _splits(rendered: Rendered, arch: int) -> dict[str, int]:
    """Bytes of shared memory by kernel, where kernels of a method ask for them."""
    found: dict[str, int] = {}
    for method in rendered.entries.values():
        own = {one.name: one.shared_split for one in method.kernels if one.is_for(arch)}
        common = max((one for one in own.values() if one <= LARGEST_SPLIT), default=0)
        if common:
            found |= {name: max(found.get(name, 0), common, one) for name, one in own.items()}
    return found


def _is_usable(request: Request, answer: Binary | str) -> bool:
    return isinstance(answer, Binary) and not _is_too_large(request, answer)


def _is_too_large(request: Request, answer: Binary | str) -> bool:
    return isinstance(answer, Binary) and answer.shared > GPUS[request.arch].shared


def _accept(request: Request, answer: Binary | str) -> Binary:
    """The binary, or a CompileError with the command that repeats the failure."""
    if isinstance(answer, str):
        raise CompileError(
            f"compiling the kernel {request.name} for {request.target} failed.\n"
            f"The compiler says:\n{answer}\n{_repeat(request)}"
        )
    if _is_too_large(request, answer):
        limit = GPUS[request.arch].shared
        raise CompileError(
            f"the kernel {request.name} needs {answer.shared} bytes of shared memory and"
            f" {request.target} offers {limit}; a smaller tile would fit.\n"
            f"{_repeat(request)}"
        )
    return answer


def _repeat(request: Request) -> str:
    """The command that compiles a request again, which is left in the folder of dumps."""
    file = leave_in_dump(f"failed_{request.name}_{request.target}.py", request.as_text())
    if file is None:
        return KEEP
    command = shlex.join([sys.executable, "-m", "aotpack.precompile.worker", str(file)])
    return f"To repeat: {command}"


def _interpreted(kernel: KernelSource) -> Binary:
    """The interpreter's binary is the text itself."""
    return Binary(
        kernel=kernel.name,
        target=str(INTERPRETER),
        symbol=kernel.name,
        code=kernel.text.encode(),
        suffix="py",
        num_warps=kernel.num_warps,
        num_ctas=kernel.cluster_size,
        shared=0,
        global_scratch=0,
        global_scratch_align=1,
        registers=0,
        spills=0,
    )
