"""The versions of the compilers that make binaries, for cache keys and the manifest."""

import functools
import re
import subprocess
from pathlib import Path

import triton
from triton import knobs

from aotpack.errors import CompileError


@functools.cache
def compiler_versions() -> dict[str, str]:
    """Name -> version of Triton and of the assemblers it runs."""
    tools = (knobs.nvidia.ptxas, knobs.nvidia.ptxas_blackwell)
    return {"triton": triton.__version__} | {Path(t.path).name: _version(t.path) for t in tools}


def _version(path: str) -> str:
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CompileError(
            f"asking the assembler {path} for its version failed: {error};"
            " it comes with triton, so reinstall triton"
        ) from error
    match = re.search(r"V(\d+\.\d+\.\d+)", answer.stdout)
    return match.group(1) if match else answer.stdout.strip()
