"""Flags of the C compiler (AOTPACK_CFLAGS) by what a test is about.

A shared object holds its kernels twice, for processors with AVX-512 and for those without. A test
runs one of them, and is spared the compilation of the other.
"""

from pathlib import Path

WIDE_FEATURES = {"avx512f", "avx512vl", "avx512bw", "avx512dq"}
BASE_ONLY = "-DAOT_BASE_ONLY"
QUICK = f"-Og {BASE_ONLY}"
"""For tests that ask what kernels compute; those of the C code itself take what is shipped."""


def shipped() -> str:
    """With the effort of what is shipped: the kernels that this processor runs."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return "-DAOT_WIDE_ONLY" if WIDE_FEATURES.issubset(flags) else BASE_ONLY
