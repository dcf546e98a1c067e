"""Print a script that completes verbs, options and files in a shell; needs shtab.

For bash: ``eval "$(aotpack completion bash)"``.
"""

import argparse
from importlib import import_module

from aotpack.commands.verbs import VERBS
from aotpack.errors import UsageError

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``aotpack completion``."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(options: argparse.Namespace) -> int:
    """Print the script of one shell."""
    try:
        shtab = import_module("shtab")
    except ImportError as error:
        raise UsageError("completion needs shtab: pip install 'aotpack[completion]'") from error
    print(shtab.complete(_whole_parser(), shell=options.shell))
    return 0


def _whole_parser() -> argparse.ArgumentParser:
    """The command line as one parser with all verbs."""
    whole = argparse.ArgumentParser(prog="aotpack")
    verbs = whole.add_subparsers(dest="verb")
    for verb, text in VERBS.items():
        one = verbs.add_parser(verb, help=text)
        import_module(f"aotpack.commands.{verb}").add_arguments(one)
    return whole
