"""Sign a wheel and its provenance with an ed25519 key, for aotpack verify --key."""

import argparse
import getpass
import sys
from pathlib import Path

from aotpack.commands.signatures import signing
from aotpack.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``aotpack sign``."""
    parser.add_argument("wheel", metavar="WHEEL", type=Path, help="a wheel beside its provenance")
    parser.add_argument(
        "--key",
        metavar="FILE",
        type=Path,
        required=True,
        help="a private key: ssh-keygen -t ed25519, or openssl genpkey -algorithm ed25519",
    )


def run(options: argparse.Namespace) -> int:
    """Write the signature beside the wheel, and say whose it is."""
    file, name = signing().sign(options.wheel, options.key, lambda: _ask(options.key))
    print(f"{file}  signed with the key {name}")
    return 0


def _ask(key: Path) -> bytes:
    if not sys.stdin.isatty():
        raise UsageError(
            f"--key {key}: it is encrypted, and there is no terminal to ask for its passphrase; "
            "run this in a terminal, or give a key without passphrase"
        )
    return getpass.getpass(f"passphrase of {key}: ").encode()
