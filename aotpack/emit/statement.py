"""Reads what a signature is about: its DSSE envelope, and the in-toto statement in that.

Both come from outside. Keys that the standards leave open are ignored, as they demand; a ValueError
says in words what does not fit.
"""

import base64
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from aotpack.emit.provenance import PREDICATE, STATEMENT
from aotpack.runtime.files.schema import shown
from aotpack.runtime.files.strict_json import parse_json

_KIND = TypeVar("_KIND", str, list[Any], dict[str, Any])
_WORDS = {str: "text", list: "a list", dict: "an object"}
_NAMED = 3  # of the files that a statement is about, in an error
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement about a wheel: the files it names, and what the wheel was made of."""

    subjects: tuple[str, ...]
    made_of: tuple[str, ...]


def read_envelope(text: bytes, kind: str) -> tuple[bytes, bytes, str]:
    """The payload of this kind, its signature, and who claims to have made that."""
    envelope = parse_json(text)
    if not isinstance(envelope, dict):
        raise ValueError(f"it is {shown(envelope)}, accepted is an object")
    found = _part(envelope, "payloadType", str)
    if found != kind:
        raise ValueError(f"its payload is {shown(found)}, accepted is {kind}")
    signatures = _part(envelope, "signatures", list)
    if len(signatures) != 1:
        raise ValueError(f"it has {len(signatures)} signatures, accepted is one")
    signed = signatures[0]
    maker = signed.get("keyid") if isinstance(signed, dict) else None
    is_name = isinstance(maker, str) and _FINGERPRINT.fullmatch(maker)
    claimed = "nobody" if maker is None else maker if is_name else shown(maker)
    return _bytes(envelope, "payload"), _bytes(signed, "sig"), str(claimed)


def read_statement(payload: bytes, digest: str) -> Statement:
    """The statement, if it is one of a build and about the wheel with this sha256."""
    try:
        statement = parse_json(payload)
        kinds = [_part(statement, key, str) for key in ("_type", "predicateType")]
        subjects = _part(statement, "subject", list)
        digests = [_part(_part(one, "digest", dict), "sha256", str) for one in subjects]
    except ValueError as error:
        raise ValueError(f"is no provenance ({error})") from None
    for found, accepted in zip(kinds, (STATEMENT, PREDICATE), strict=True):
        if found != accepted:
            raise ValueError(f"is of the kind {shown(found)}, accepted is {accepted!r}")
    if digest not in digests:
        named = ", ".join(map(_digest_text, digests[:_NAMED])) or "none"
        named += f" and {len(digests) - _NAMED} more" if len(digests) > _NAMED else ""
        raise ValueError(f"is about another file: the wheel's sha256 is {digest}, it names {named}")
    try:
        build = _part(_part(statement, "predicate", dict), "buildDefinition", dict)
        made_of = tuple(map(_material, _part(build, "resolvedDependencies", list)))
    except ValueError as error:
        raise ValueError(f"does not say what the wheel was made of ({error})") from None
    names = (one.get("name") for one in subjects)
    return Statement(tuple(name for name in names if isinstance(name, str)), made_of)


def _digest_text(digest: str) -> str:
    return digest if _SHA256.fullmatch(digest) else shown(digest)


def _material(one: Any) -> str:
    """A package's address, or a file and its sha256."""
    if isinstance(one, dict) and "uri" in one:
        return _part(one, "uri", str)
    name = _part(one, "name", str)
    return f"{name} (sha256 {_part(_part(one, 'digest', dict), 'sha256', str)})"


def _part(value: Any, key: str, kind: type[_KIND]) -> _KIND:
    """The entry of an object, of the accepted type."""
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} stands where an object with {key!r} is accepted")
    if key not in value:
        raise ValueError(f"it has no {key!r}")
    found = value[key]
    if not isinstance(found, kind):
        raise ValueError(f"its {key!r} is {shown(found)}, accepted is {_WORDS[kind]}")
    return found


def _bytes(value: Any, key: str) -> bytes:
    text = _part(value, key, str)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"its {key!r} is {shown(text)}, accepted is base64") from None
