"""The compiling process: a request a line on standard input, an answer a line on output.

``python -m aotpack.precompile.worker FILE`` compiles one request that a failed build left in FILE.
"""

import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from aotpack.devices import GPUS
from aotpack.ir.kernels.rows import LINE_BYTES
from aotpack.ir.kernels.tiles import WARP
from aotpack.precompile.columns import check_columns
from aotpack.precompile.elf import read_resources
from aotpack.precompile.kernel_module import load_module
from aotpack.precompile.messages import read_request, write_answer
from aotpack.precompile.packed_halves import stages_with_split_halves
from aotpack.precompile.request import Request
from aotpack.precompile.tensor_maps import compiled_maps, gluon_type
from aotpack.stages import RING_START, Binary

_PTX_ISA = 81  # of CUDA 12.1: drivers from there on read it, and it has the 8-bit floats of 8.9


def compile_request(request: Request) -> Binary:
    """Compile with Triton; read from the code the data for its launcher."""
    compiled = run_gluon(request) if request.gluon_text else None
    compiled = compiled or run_triton(request)
    cubin, facts = compiled.asm["cubin"], compiled.metadata
    resources = read_resources(cubin, facts.name)
    return Binary(
        kernel=request.name,
        target=str(request.target),
        symbol=facts.name,
        code=compiled.asm["ptx"].encode() if request.is_text else cubin,
        suffix="ptx" if request.is_text else "cubin",
        num_warps=_warps(compiled.asm["ptx"]) or facts.num_warps,
        num_ctas=request.cluster_size,
        shared=_shared(request, compiled),
        global_scratch=facts.global_scratch_size,
        global_scratch_align=facts.global_scratch_align,
        registers=resources.registers,
        spills=resources.local_bytes,
        starts_early=request.starts_early,
        maps=compiled_maps(getattr(facts, "tensordesc_meta", None)),
    )


def _shared(request: Request, compiled: Any) -> int:
    """The bytes of shared memory of a launch: Triton's, and a ring behind them."""
    own: int = compiled.metadata.shared
    if not request.ring_bytes:
        return own
    if own > RING_START - LINE_BYTES:
        raise ValueError(
            f"the kernel {request.name} takes {own} bytes of shared memory, before its ring"
            f" there are {RING_START - LINE_BYTES}"
        )
    check_columns(compiled.asm["ttgir"], request.num_warps)
    return RING_START + request.ring_bytes


def _warps(ptx: str) -> int:
    """The warps of a block, those with a role of their own among them; 0 where it is not said."""
    threads = re.search(r"^\.reqntid (\d+)", ptx, re.MULTILINE)
    return int(threads[1]) // WARP if threads else 0


def run_gluon(request: Request) -> Any:
    """Gluon's result for a request; None for an epilogue that it does not take.

    It has no layout for some tensors that Triton lays out itself.
    """
    given = (*request.types, *request.gluon_types)
    types = {name: gluon_type(kind) for name, kind in given}
    function = getattr(load_module(request.name, request.gluon_text), request.name)
    try:
        source = GluonASTSource(function, types, {}, _attributes(request))
        compiled = _run(request, source, request.gluon_warps or request.num_warps)
    except Exception:  # of any kind: the plain text is compiled, whose errors are the user's
        return None
    return compiled if compiled.metadata.shared <= GPUS[request.arch].shared else None


def run_triton(request: Request) -> Any:
    """Triton's result for a request, with the texts of its stages."""
    function = getattr(load_module(request.name, request.text), request.name)
    source = ASTSource(function, dict(request.types), {}, _attributes(request))
    return _run(request, source, request.num_warps)


def _attributes(request: Request) -> dict[tuple[int], list[list[str | int]]]:
    return {(where,): [["tt.divisibility", factor]] for where, factor in request.multiples}


def _run(request: Request, source: ASTSource, num_warps: int) -> Any:
    with knobs.runtime.scope():
        knobs.runtime.add_stages_inspection_hook = stages_with_split_halves
        return triton.compile(
            source,
            target=GPUTarget("cuda", request.arch, 32),
            options={
                "num_warps": num_warps,
                "num_stages": request.num_stages,
                "enable_fp_fusion": request.fuses_products,
                **({"ptx_version": _PTX_ISA} if request.is_text else {}),
            },
        )


def answer(line: str) -> str:
    """The answer to one request line: the binary, or the compiler's error."""
    try:
        return write_answer(compile_request(read_request(line)))
    except Exception as error:  # whatever the compiler raises is the user's to read
        return write_answer(f"{type(error).__name__}: {error}")


def serve() -> None:
    """Answer requests until standard input ends; the compiler's own prints go to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(answer(line), file=replies, flush=True)


def _end_with(parent: int) -> None:
    """End this process, and an assembler it waits for, when the build that started it ends."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)


def repeat(file: Path) -> None:
    """Compile a request left by a failed build and let the compiler's error through."""
    print(compile_request(Request.parse(file.read_text())))


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        repeat(Path(sys.argv[1]))
