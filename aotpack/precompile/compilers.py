"""The versions of the compilers that make binaries, for cache keys and the manifest."""

import functools
import re
from pathlib import Path

import triton
from triton import knobs

from aotpack.errors import CompileError
from aotpack.precompile.tool import run_tool

_ADVICE = "they come with triton, so reinstall triton"


@functools.cache
def compiler_versions() -> dict[str, str]:
    """Name -> version of Triton and of the assemblers it runs."""
    try:
        tools = (knobs.nvidia.ptxas, knobs.nvidia.ptxas_blackwell)
    except RuntimeError as error:  # triton looks for them, and runs them
        raise CompileError(
            f"looking for the assemblers of triton failed: {error}; {_ADVICE}"
        ) from error
    return {"triton": triton.__version__} | {Path(t.path).name: _version(t.path) for t in tools}


def _version(path: str) -> str:
    done = run_tool("asking an assembler for its version", [path, "--version"])
    match = re.search(r"V(\d+\.\d+\.\d+)", done.output)
    if done.status or match is None:
        raise CompileError(
            f"asking the assembler {path} for its version failed ({done.ending}):"
            f" {(done.errors or done.output).strip()[-500:] or 'it says nothing'}; {_ADVICE}"
        )
    return match.group(1)
