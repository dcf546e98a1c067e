"""Parsers whose errors are one line, and the options that every verb has."""

import argparse
import json
from collections.abc import Sequence
from typing import Any, NoReturn

from aotpack.errors import UsageError, did_you_mean


def error_json(kind: str, message: str) -> str:
    """An error as the JSON object of a command."""
    return json.dumps({"error": {"class": kind, "message": message}})


class OneLineParser(argparse.ArgumentParser):
    """Reports an error in one line: the value found, those accepted, the nearest of them."""

    added = ""  # the words that do not come from the command line, and where from

    _is_json = False

    def error(self, message: str) -> NoReturn:
        """Exit with the code of a wrong command line; with ``--json``, after a JSON object."""
        if self._is_json:
            print(error_json(UsageError.__name__, f"{message}{self.added}"))
        self.exit(2, f"{self.prog}: {message}{self.added}; see {self.prog} --help\n")

    @property
    def long_options(self) -> set[str]:
        """The options that begin with two dashes, but for ``--help``."""
        return {n for n in self._option_string_actions if n.startswith("--")} - {"--help"}

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """The options that words give. A misspelt one is named before a missing one."""
        accepted = self.long_options | {"--help"}
        self._is_json = "--json" in accepted and "--json" in words
        for word in words:
            name = word.partition("=")[0]
            if name == "--":
                break
            if name.startswith("--") and name not in accepted:
                self.error(f"there is no option {name}{did_you_mean(name, accepted)}")
        options, rest = self.parse_known_args(words)
        if rest:
            self.error(f"the argument {rest[0]!r} is one too many")
        return options

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Called by argparse for options with ``choices``."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        raise argparse.ArgumentError(
            action,
            f"found {value!r}, accepted are {', '.join(names)}{did_you_mean(str(value), names)}",
        )


def add_traceback(parser: argparse.ArgumentParser) -> None:
    """The option of every verb."""
    parser.add_argument(
        "--traceback", action="store_true", help="print Python's traceback of an error too"
    )


def add_verbosity(parser: argparse.ArgumentParser, quiet: str, verbose: str) -> None:
    """Options for less and for more output, with their help, and for JSON."""
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quiet", action="store_true", help=quiet)
    amount.add_argument("--verbose", action="store_true", help=verbose)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, in place of text"
    )
