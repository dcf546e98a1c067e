"""The command line: picks the verb, reads its options, maps errors to a message and a code.

Exit codes: 0 done, 1 build or check failed, 2 a wrong command line, 130 interrupted,
141 standard output was closed.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

from aotpack.errors import AotpackError, UsageError
from aotpack.version import __version__

VERBS = {
    "build": "package a model as a wheel (the default: aotpack MODEL -o DIR)",
    "inspect": "what is inside a wheel: kernels, sizes, memory, weights",
    "verify": "check a wheel's answers, and that it compiles nothing",
    "bench": "time a wheel on its golden inputs",
    "tune": "time the candidate kernels inside a wheel, for the next build",
    "doctor": "what this machine can build and run, and what is missing",
    "show": "the stage products of a model as text",
}


class OneLineParser(argparse.ArgumentParser):
    """Reports an error in one line: the value found and those accepted."""

    def error(self, message: str) -> NoReturn:
        """Exit with the code of a wrong command line."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the verb may be left out before MODEL."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0 if words else 2
    if words[0] == "--version":
        print(f"aotpack {__version__}")
        return 0
    if _is_misspelt_verb(words):
        accepted = f"a verb ({', '.join(VERBS)}) or MODEL -o DIR is accepted"
        print(f"aotpack: {words[0]!r} is neither a verb nor a model; {accepted}", file=sys.stderr)
        return 2
    verb = words.pop(0) if words[0] in VERBS else "build"
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(verb, words)
    except UsageError as error:
        print(f"aotpack {verb}: {error}", file=sys.stderr)
        return 2
    except AotpackError as error:
        print(f"aotpack {verb}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print(f"aotpack {verb}: interrupted; nothing was left behind", file=sys.stderr)
        return 130


def _run(verb: str, words: Sequence[str]) -> int:
    """Import only the module of the verb: help and small commands need no torch."""
    command = import_module(f"aotpack.commands.{verb}")
    parser = OneLineParser(prog=f"aotpack {verb}", description=command.__doc__, allow_abbrev=False)
    command.add_arguments(parser)
    code: int = command.run(parser.parse_args(words))
    sys.stdout.flush()
    return code


def _is_misspelt_verb(words: Sequence[str]) -> bool:
    """True for a word that cannot name a model: not a path or module, and without -o."""
    first = words[0]
    if first in VERBS or not first.isidentifier() or Path(first).exists():
        return False
    return not any(word.startswith(("-o", "--out")) for word in words[1:])


def _overview() -> str:
    rows = "\n".join(f"  {verb:10}{text}" for verb, text in VERBS.items())
    return (
        "usage: aotpack MODEL -o DIR [options]\n       aotpack VERB ...\n\n"
        f"Packages a PyTorch model as a wheel that needs no compiler.\n\n{rows}\n\n"
        "MODEL is model.py, model.py:attr, package.module:attr or model.pt2.\n"
        "aotpack VERB --help tells more; aotpack --version the version."
    )


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Treat SIGTERM as an interrupt, so that resources are cleaned up."""
    raise KeyboardInterrupt
