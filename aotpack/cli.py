"""The command line: picks the verb, reads its options, maps errors to a message and a code.

Exit codes: 0 done, 1 build or check failed, 2 a wrong command line, 141 standard output was
closed. An interrupt passes; ``__main__`` maps it to 130.
"""

import os
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from aotpack.commands.parser import OneLineParser, add_traceback, error_json
from aotpack.commands.settings import with_settings
from aotpack.commands.verbs import VERBS
from aotpack.errors import AotpackError, UsageError, did_you_mean, printable_lines
from aotpack.version import __version__

SETTABLE = ("build", "show")  # verbs that read pyproject.toml


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
        file = f"{words[0]}.py"
        is_there = Path(file).is_file()
        near = f"; did you mean {file!r}?" if is_there else did_you_mean(words[0], VERBS)
        accepted = f"a verb ({', '.join(VERBS)}) or MODEL -o DIR is accepted{near}"
        print(f"aotpack: {words[0]!r} is neither a verb nor a model; {accepted}", file=sys.stderr)
        return 2
    verb = words.pop(0) if words[0] in VERBS else "build"
    try:
        return _run(verb, words)
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:
        if "--traceback" in words:
            traceback.print_exc()
        message = printable_lines(_explained(error))
        if "--json" in words:
            print(error_json(type(error).__name__, message))
        print(f"aotpack {verb}: {message}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def _explained(error: Exception) -> str:
    """The message of an error: ours, the system's, or that of a defect."""
    if isinstance(error, AotpackError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror}; --traceback shows where it happened"
    if isinstance(error, MemoryError):
        return "out of memory; a machine with more of it, or a smaller example input, is needed"
    last = traceback.extract_tb(error.__traceback__)[-1]
    notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
    return (
        f"internal error: {type(error).__name__}: {error} ({Path(last.filename).name}:"
        f"{last.lineno}{notes}). This is a defect of aotpack: please report it with the output "
        "of --traceback"
    )


def _run(verb: str, words: Sequence[str]) -> int:
    """Import only the module of the verb: help and small commands need no torch."""
    command = import_module(f"aotpack.commands.{verb}")
    parser = OneLineParser(prog=f"aotpack {verb}", description=command.__doc__, allow_abbrev=False)
    command.add_arguments(parser)
    add_traceback(parser)
    if verb in SETTABLE:
        whole = with_settings(words, parser.long_options, _settable_options(), Path.cwd())
        if added := whole[: len(whole) - len(words)]:
            parser.added = f" (pyproject.toml adds {shlex.join(added)})"
        words = whole
    code: int = command.run(parser.read(words))
    sys.stdout.flush()
    return code


def _settable_options() -> set[str]:
    """The long options of all verbs that take settings."""
    found: set[str] = set()
    for verb in SETTABLE:
        parser = OneLineParser()
        import_module(f"aotpack.commands.{verb}").add_arguments(parser)
        found |= parser.long_options
    return found


def _is_misspelt_verb(words: Sequence[str]) -> bool:
    """True for a word that names no model: no path or module, and no -o or a model after it."""
    first = words[0]
    if first in VERBS or not first.isidentifier() or Path(first).exists():
        return False
    has_model = len(words) > 1 and not words[1].startswith("-")
    return has_model or not any(word.startswith(("-o", "--out")) for word in words[1:])


def _overview() -> str:
    rows = "\n".join(f"  {verb:12}{text}" for verb, text in VERBS.items())
    return (
        "usage: aotpack MODEL -o DIR [options]\n       aotpack VERB ...\n\n"
        f"Packages a PyTorch model as a wheel that needs no compiler.\n\n{rows}\n\n"
        "MODEL is model.py, model.py:attr, package.module:attr or model.pt2.\n"
        "aotpack VERB --help tells more; aotpack --version the version."
    )
