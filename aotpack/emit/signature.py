"""Signs the provenance of a wheel with ed25519, and checks such a signature.

The form is a DSSE envelope around the in-toto statement, WHEEL.intoto.jsonl. What is signed is the
statement, which names the sha256 of the wheel. Only this module imports cryptography.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from aotpack.emit.provenance import provenance_file
from aotpack.emit.statement import Statement, read_envelope, read_statement
from aotpack.errors import UsageError, VerifyError, a_type

PAYLOAD = "application/vnd.in-toto+json"
_MAKE = "ssh-keygen -t ed25519 -f FILE makes a pair, FILE and FILE.pub"


def signature_file(wheel: Path) -> Path:
    """The envelope beside a wheel."""
    return wheel.with_name(f"{wheel.name}.intoto.jsonl")


def sign(wheel: Path, key: Path, passphrase: Callable[[], bytes]) -> tuple[Path, str]:
    """Write the envelope beside the wheel; returns it and the fingerprint of the key."""
    private = _private_key(key, passphrase)
    file = provenance_file(wheel)
    digest = _sha256(wheel, f"signing {wheel}")
    try:
        payload = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"signing {wheel}: its provenance {file.name} cannot be read ({error.strerror}); a "
            "build writes it beside the wheel, keep them together"
        ) from error
    try:
        read_statement(payload, digest)
    except ValueError as error:
        raise UsageError(f"signing {wheel}: {file.name} {error}; build the wheel again") from error
    name = fingerprint(private.public_key())
    signed = base64.b64encode(private.sign(_encoded(payload))).decode()
    envelope = {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": name, "sig": signed}],
    }
    target = signature_file(wheel)
    try:
        target.write_text(json.dumps(envelope, sort_keys=True) + "\n")
    except OSError as error:
        with suppress(OSError):
            target.unlink()
        raise UsageError(
            f"signing {wheel}: {target} cannot be written: {error.strerror}"
        ) from error
    return target, name


def check_signature(wheel: Path, key: Path, content: Path | None = None) -> tuple[Statement, str]:
    """The signed statement and the key's fingerprint; VerifyError for anything but a fit.

    ``content`` is a copy of the wheel, where others could change the wheel after the check.
    """
    public = _public_key(key)
    doing = f"verifying {wheel}"
    digest = _sha256(content or wheel, doing)
    file = signature_file(wheel)
    try:
        text = file.read_bytes()
    except OSError as error:
        raise VerifyError(
            f"{doing}: it has no signature: {file.name} cannot be read ({error.strerror}). Ask its "
            "builder for that file, or leave out --key"
        ) from error
    name = fingerprint(public)
    try:
        payload, signature, made_by = read_envelope(text, PAYLOAD)
    except ValueError as error:
        raise VerifyError(
            f"{doing}: the signature {file.name} is damaged ({error}); copy it again"
        ) from error
    try:
        public.verify(signature, _encoded(payload))
    except InvalidSignature:
        raise VerifyError(
            f"{doing}: the signature {file.name} does not fit the key {name}; it "
            f"says that {made_by} made it. Do not install the wheel unless you can tell why"
        ) from None
    try:
        return read_statement(payload, digest), name
    except ValueError as error:
        raise VerifyError(
            f"{doing}: the signed statement {error}. Do not install the wheel"
        ) from error


def fingerprint(key: Ed25519PublicKey) -> str:
    """The name of a key as ``ssh-keygen -l`` prints it."""
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    blob = base64.b64decode(key.public_bytes(*form).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).rstrip(b"=").decode()


def _encoded(payload: bytes) -> bytes:
    """What is signed: DSSE's encoding of the payload with its type."""
    head = f"DSSEv1 {len(PAYLOAD)} {PAYLOAD} {len(payload)} ".encode()
    return head + payload


def _sha256(wheel: Path, doing: str) -> str:
    try:
        with wheel.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{doing}: the file cannot be read: {error.strerror}") from error


def _private_key(file: Path, passphrase: Callable[[], bytes]) -> Ed25519PrivateKey:
    text = _key_text(file, _MAKE)
    is_ssh = b"BEGIN OPENSSH PRIVATE KEY" in text
    load = serialization.load_ssh_private_key if is_ssh else serialization.load_pem_private_key
    try:
        try:
            key: Any = load(text, password=None)
        except TypeError:  # it is encrypted
            key = load(text, password=passphrase())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _refused(file, "private", _unreadable(text)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _refused(file, "private", f"it is {a_type(key)}")
    return key


def _public_key(file: Path) -> Ed25519PublicKey:
    text = _key_text(file, "the builder of the wheel has the public key")
    is_pem = text.lstrip().startswith(b"-----BEGIN")
    load = serialization.load_pem_public_key if is_pem else serialization.load_ssh_public_key
    try:
        key: Any = load(text)
    except (ValueError, UnsupportedAlgorithm) as error:
        found = "it is a private key" if b"PRIVATE KEY" in text else "it is no public key"
        raise _refused(file, "public", found) from error
    if not isinstance(key, Ed25519PublicKey):
        raise _refused(file, "public", f"it is {a_type(key)}")
    return key


def _unreadable(text: bytes) -> str:
    """Why a file is no private key that can be read."""
    if text.startswith((b"ssh-", b"-----BEGIN PUBLIC KEY")):
        return "it is a public key"
    is_key = b"PRIVATE KEY-----" in text
    return "it is damaged, or the passphrase is wrong" if is_key else "it is no private key"


def _key_text(file: Path, else_do: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"--key {file}: it cannot be read: {error.strerror}; check the path; {else_do}"
        ) from error


def _refused(file: Path, kind: str, found: str) -> UsageError:
    pair = f"; {_MAKE}" if kind == "private" else ""
    return UsageError(
        f"--key {file}: {found}; accepted is an ed25519 {kind} key, in PEM or as OpenSSH writes it"
        f"{pair}"
    )
