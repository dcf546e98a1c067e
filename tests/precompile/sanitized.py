"""Models under the sanitizers: python -m tools.sanitize tests.precompile.sanitized WORD..."""

import sys
from collections.abc import Sequence

import torch

from aotpack.target import CPU
from tests.e2e.cases import CASES
from tests.e2e.oracle import agree, compile_all


def main(words: Sequence[str]) -> None:
    """Every case with one of the words in its name: kernels in C alone, and eager's answers."""
    for case in CASES:
        if any(word in case.name for word in words):
            torch.manual_seed(0)
            args = case.args()
            compiled = compile_all(case.make(), args, None, case.dynamic, (CPU,))
            for call in (args, *(call() for call in case.calls)):
                agree(compiled, call)
            print(case.name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
