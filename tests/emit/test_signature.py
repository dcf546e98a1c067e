"""A signature fits one wheel and one key; every other pair is refused before anything runs."""

import base64
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aotpack.cli import main
from aotpack.commands.signatures import signed as checked
from aotpack.commands.wheel_file import unpacked
from aotpack.emit import emit
from aotpack.emit.provenance import provenance_file
from aotpack.emit.signature import check_signature, fingerprint, sign, signature_file
from aotpack.errors import AotpackError, UsageError, VerifyError

from .builds import IDENTITY, tiny

PEM, SSH = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
PKCS8, PRIVATE_SSH = serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.OpenSSH
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))


def no_passphrase() -> bytes:
    raise AssertionError("nothing is encrypted")


def private(key: Any, form: Any = PKCS8, words: bytes | None = None) -> bytes:
    lock = serialization.BestAvailableEncryption(words) if words else serialization.NoEncryption()
    return bytes(key.private_bytes(PEM, form, lock))


def public(key: Any, encoding: Any = PEM, form: Any = SPKI) -> bytes:
    return bytes(key.public_key().public_bytes(encoding, form))


OPENSSH = public(KEY, SSH, serialization.PublicFormat.OpenSSH) + b" builder@example\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emit(tiny(), IDENTITY, tmp_path_factory.mktemp("out")).wheel


@pytest.fixture
def wheel(built: Path, tmp_path: Path) -> Path:
    """A wheel beside its provenance, in a folder with two pairs of keys."""
    shutil.copy(provenance_file(built), tmp_path)
    (tmp_path / "key").write_bytes(private(KEY))
    (tmp_path / "key.pub").write_bytes(public(KEY))
    (tmp_path / "other.pub").write_bytes(public(OTHER))
    return Path(shutil.copy(built, tmp_path))


@pytest.fixture
def signed(wheel: Path) -> Path:
    sign(wheel, wheel.parent / "key", no_passphrase)
    return wheel


@pytest.mark.parametrize("secret", [private(KEY), private(KEY, PRIVATE_SSH)], ids=["PEM", "SSH"])
@pytest.mark.parametrize("shown", [public(KEY), OPENSSH], ids=["PEM", "SSH"])
def test_a_signature_fits_its_wheel_and_key(wheel: Path, secret: bytes, shown: bytes) -> None:
    (wheel.parent / "a").write_bytes(secret)
    (wheel.parent / "b").write_bytes(shown)
    file, name = sign(wheel, wheel.parent / "a", no_passphrase)
    assert file == signature_file(wheel) and name == fingerprint(KEY.public_key())
    statement, checked = check_signature(wheel, wheel.parent / "b")
    assert checked == name and statement.subjects == (wheel.name,)


def test_equal_wheels_and_keys_give_equal_signatures(signed: Path) -> None:
    first = signature_file(signed).read_bytes()
    sign(signed, signed.parent / "key", no_passphrase)
    assert signature_file(signed).read_bytes() == first


def test_the_fingerprint_is_that_of_ssh(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_bytes(OPENSSH)
    done = subprocess.run(["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True)
    assert done.stdout.decode().split()[1] == fingerprint(KEY.public_key())


def change(file: Path, changed: Callable[[bytes], bytes]) -> None:
    file.write_bytes(changed(file.read_bytes()))


def envelope(wheel: Path, **changed: Any) -> None:
    file = signature_file(wheel)
    file.write_text(json.dumps(json.loads(file.read_bytes()) | changed))


def forged(payload: bytes, key: Ed25519PrivateKey = KEY) -> dict[str, Any]:
    """An envelope that the holder of a key made of another payload."""
    kind = "application/vnd.in-toto+json"
    whole = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    text = base64.b64encode(key.sign(whole)).decode()
    return {
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": "x", "sig": text}],
    }


STATEMENT = {
    "_type": "https://in-toto.io/Statement/v1",
    "predicateType": "https://slsa.dev/provenance/v1",
    "subject": [{"digest": {"sha256": "0" * 64}}],
}


def restated(wheel: Path, *path: Any) -> bytes:
    """The provenance with one value replaced: the keys that lead to it, then the value."""
    data = inner = json.loads(provenance_file(wheel).read_bytes())
    for key in path[:-2]:
        inner = inner[key]
    inner[path[-2]] = path[-1]
    return json.dumps(data).encode()


MADE_OF = ("predicate", "buildDefinition", "resolvedDependencies")
UNSIGNED: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "a list": (
        lambda w: b"[]",
        "is no provenance .a list of 0 stands where an object with '_type'",
    ),
    "UTF-16": (lambda w: b"{}".decode().encode("utf-16"), "is no provenance .byte 0 is not UTF-8"),
    "a byte order mark": (lambda w: b"\xef\xbb\xbf" + restated(w, "x", 1), "a byte order mark"),
    "a key twice": (
        lambda w: restated(w, "x", 1).replace(b'"x"', b'"_type": 1, "x"'),
        "the key '_type' is there twice",
    ),
    "NaN": (lambda w: restated(w, "x", float("nan")), "NaN is no number in JSON"),
    "another type": (
        lambda w: restated(w, "_type", "x"),
        "is of the kind 'x', accepted is .*in-toto",
    ),
    "another predicate": (
        lambda w: restated(w, "predicateType", "y"),
        "is of the kind 'y', accepted is .*slsa",
    ),
    "a type that is a list": (
        lambda w: restated(w, "_type", ["x"]),
        "its '_type' is a list of 1, accepted is text",
    ),
    "no subjects": (lambda w: restated(w, "subject", []), "about another file: .*, it names none"),
    "other subjects": (
        lambda w: restated(w, "subject", [{"digest": {"sha256": "0" * 64}}] * 5),
        f"it names {', '.join(['0' * 64] * 3)} and 2 more",
    ),
    "a subject that rules terminals": (
        lambda w: restated(w, "subject", [{"digest": {"sha256": "\x1b[31m"}}]),
        r"it names '\\x1b\[31m'",
    ),
    "null for a predicate": (
        lambda w: restated(w, "predicate", None),
        "does not say what the wheel was made of .its 'predicate' is null, accepted is an object",
    ),
    "no definition": (lambda w: restated(w, "predicate", {}), "it has no 'buildDefinition'"),
    "text for dependencies": (lambda w: restated(w, *MADE_OF, "abc"), "'abc', accepted is a list"),
    "null for dependencies": (lambda w: restated(w, *MADE_OF, None), "null, accepted is a list"),
    "a number for a dependency": (lambda w: restated(w, *MADE_OF, [5]), "5 stands where an object"),
    "a number for an address": (
        lambda w: restated(w, *MADE_OF, [{"uri": 5}]),
        "its 'uri' is 5, accepted is text",
    ),
    "no sha256": (
        lambda w: restated(w, *MADE_OF, [{"name": "x", "digest": None}]),
        "its 'digest' is null, accepted is an object",
    ),
}


@pytest.mark.parametrize(("made", "message"), UNSIGNED.values(), ids=UNSIGNED)
def test_what_verify_refuses_is_not_signed(
    signed: Path, made: Callable[[Path], bytes], message: str
) -> None:
    payload = made(signed)
    envelope(signed, **forged(payload))
    with pytest.raises(VerifyError, match=message):
        check_signature(signed, signed.parent / "key.pub")
    provenance_file(signed).write_bytes(payload)
    signature_file(signed).unlink()
    with pytest.raises(UsageError, match=message):
        sign(signed, signed.parent / "key", no_passphrase)
    assert not signature_file(signed).exists()


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed wheel": (
        lambda w: change(w, lambda b: b + b"\0"),
        "the signed statement is about another file",
    ),
    "no signature": (lambda w: signature_file(w).unlink(), "it has no signature"),
    "an empty signature": (lambda w: signature_file(w).write_bytes(b""), "is damaged"),
    "junk": (lambda w: signature_file(w).write_bytes(b"\xff{"), "is damaged"),
    "deep junk": (lambda w: signature_file(w).write_bytes(b"[" * 99_999), "is damaged"),
    "a list": (lambda w: signature_file(w).write_bytes(b"[]"), "is damaged"),
    "another kind of payload": (lambda w: envelope(w, payloadType="text"), "its payload is 'text'"),
    "no signatures": (lambda w: envelope(w, signatures=[]), "is damaged"),
    "a number for a signature": (
        lambda w: envelope(w, signatures=[{"sig": 1}]),
        "is damaged .its 'sig' is 1, accepted is text",
    ),
    "a signature that is no object": (
        lambda w: envelope(w, signatures=["a"]),
        "is damaged .'a' stands where an object with 'sig'",
    ),
    "null for signatures": (lambda w: envelope(w, signatures=None), "is null, accepted is a list"),
    "a signature beyond ASCII": (
        lambda w: envelope(w, signatures=[{"sig": "é"}]),
        r"its 'sig' is '\\xe9', accepted is base64",
    ),
    "a key twice": (
        lambda w: change(signature_file(w), lambda b: b.replace(b"{", b'{"payload": "", ', 1)),
        "the key 'payload' is there twice",
    ),
    "UTF-16": (
        lambda w: change(signature_file(w), lambda b: b.decode().encode("utf-16")),
        "byte 0 is not UTF-8",
    ),
    "a byte order mark": (
        lambda w: change(signature_file(w), lambda b: b"\xef\xbb\xbf" + b),
        "it begins with a byte order mark",
    ),
    "NaN": (lambda w: envelope(w, x=float("nan")), "NaN is no number in JSON"),
    "null": (lambda w: signature_file(w).write_bytes(b"null"), "it is null, accepted is an object"),
    "a short signature": (lambda w: envelope(w, signatures=[{"sig": "AAAA"}]), "does not fit"),
    "another payload": (
        lambda w: envelope(w, payload=base64.b64encode(b"{}").decode()),
        "does not fit the key SHA256:",
    ),
    "another signer": (
        lambda w: envelope(w, **forged(provenance_file(w).read_bytes(), OTHER)),
        "does not fit the key SHA256:",
    ),
    "a signed text of another kind": (lambda w: envelope(w, **forged(b"{}")), "is no provenance"),
    "a statement of another kind": (
        lambda w: envelope(w, **forged(json.dumps(STATEMENT | {"predicateType": "x"}).encode())),
        "is of the kind 'x'",
    ),
    "a statement about another wheel": (
        lambda w: envelope(w, **forged(json.dumps(STATEMENT).encode())),
        "is about another file",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(
    signed: Path, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(signed)
    with pytest.raises(VerifyError, match=message):
        check_signature(signed, signed.parent / "key.pub")


def test_another_key_is_refused(signed: Path) -> None:
    made_by = re.escape(fingerprint(KEY.public_key()))
    with pytest.raises(VerifyError, match=f"it says that {made_by} made it"):
        check_signature(signed, signed.parent / "other.pub")


@pytest.mark.parametrize(
    ("claimed", "shown"),
    [
        ("\x1b[31mTRUSTED\nsigned", r"'\\x1b\[31mTRUSTED\\nsigned' made it"),
        ("somebody made it. ok", "'somebody made it. ok' made it"),
        (["x"], "a list of 1 made it"),
        (None, "nobody made it"),
    ],
)
def test_a_claimed_signer_is_quoted(signed: Path, claimed: Any, shown: str) -> None:
    sig = base64.b64encode(bytes(64)).decode()
    envelope(signed, signatures=[{"keyid": claimed, "sig": sig}])
    with pytest.raises(VerifyError, match=f"it says that {shown}"):
        check_signature(signed, signed.parent / "key.pub")


def test_a_wheel_is_signed_with_its_own_provenance_alone(wheel: Path) -> None:
    key = wheel.parent / "key"
    change(wheel, lambda b: b + b"\0")
    with pytest.raises(UsageError, match="provenance.json is about another file"):
        sign(wheel, key, no_passphrase)
    provenance_file(wheel).unlink()
    with pytest.raises(UsageError, match="its provenance .* cannot be read .No such file"):
        sign(wheel, key, no_passphrase)
    with pytest.raises(UsageError, match="the file cannot be read: No such file"):
        sign(wheel.with_name("none.whl"), key, no_passphrase)
    assert not signature_file(wheel).exists()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", "key: it is no private key; accepted is an ed25519 private key, in PEM or .*keygen"),
        (b"import torch", "key: it is no private key; accepted is an ed25519"),
        (public(KEY), "key: it is a public key; accepted is an ed25519 private key"),
        (private(KEY)[:90], "key: it is damaged, or the passphrase is wrong; accepted"),
        (private(ec.generate_private_key(ec.SECP256R1())), "it is an EC.*ssh-keygen -t ed25519"),
        (private(KEY, words=b"words"), "it is damaged, or the passphrase is wrong"),
    ],
    ids=["empty", "junk", "public", "cut", "another kind", "a wrong passphrase"],
)
def test_keys_that_cannot_sign_are_refused(wheel: Path, text: bytes, found: str) -> None:
    (wheel.parent / "key").write_bytes(text)
    with pytest.raises(UsageError, match=found):
        sign(wheel, wheel.parent / "key", lambda: b"wrong")
    with pytest.raises(
        UsageError, match="directory; check the path; ssh-keygen -t ed25519 -f FILE makes"
    ):
        sign(wheel, wheel.parent / "gone", no_passphrase)


@pytest.mark.parametrize("form", [PKCS8, PRIVATE_SSH], ids=["PEM", "SSH"])
def test_an_encrypted_key_asks_for_its_passphrase(wheel: Path, form: Any) -> None:
    (wheel.parent / "key").write_bytes(private(KEY, form, b"words"))
    sign(wheel, wheel.parent / "key", lambda: b"words")
    assert check_signature(wheel, wheel.parent / "key.pub")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"junk", "it is no public key; accepted .* public key, in PEM or as OpenSSH writes it$"),
        (private(KEY), "it is a private key"),
    ],
    ids=["junk", "private"],
)
def test_keys_that_cannot_check_are_refused(signed: Path, text: bytes, found: str) -> None:
    (signed.parent / "wrong.pub").write_bytes(text)
    with pytest.raises(UsageError, match=found):
        check_signature(signed, signed.parent / "wrong.pub")
    with pytest.raises(
        UsageError, match="check the path; the builder of the wheel has the public key$"
    ):
        check_signature(signed, signed.parent / "gone")


# --- the command line --------------------------------------------------------------------------


def test_verify_refuses_before_anything_of_the_wheel_runs(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel.write_bytes(b"no wheel at all")
    assert main(["verify", str(wheel), "--key", str(wheel.parent / "key.pub")]) == 1
    assert "it has no signature" in capsys.readouterr().err


def test_sign_and_verify_say_whose_signature_it_is(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = fingerprint(KEY.public_key())
    assert main(["sign", str(wheel), "--key", str(wheel.parent / "key")]) == 0
    assert capsys.readouterr().out == f"{signature_file(wheel)}  signed with the key {name}\n"
    main(["verify", str(wheel), "--key", str(wheel.parent / "key.pub"), "--device", "cpu"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"signed with the key {name}" and "pkg:pypi/torch@" in lines[1]
    envelope(wheel, **forged(restated(wheel, *MADE_OF, [{"uri": "\x1b[2J\nsigned \u202e"}])))
    main(["verify", str(wheel), "--key", str(wheel.parent / "key.pub"), "--device", "cpu"])
    assert capsys.readouterr().out.splitlines()[1] == r"made of \x1b[2J\nsigned \u202e"


def test_without_the_library_the_extra_is_named(
    wheel: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "aotpack.emit.signature")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert main(["sign", str(wheel), "--key", str(wheel.parent / "key")]) == 2
    assert "pip install 'aotpack[sign]'" in capsys.readouterr().err


def test_what_has_been_checked_is_what_is_read(
    signed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Another wheel in its place comes too late; without a key the file itself is read."""
    key, other = signed.parent / "key.pub", tmp_path_factory.mktemp("other") / signed.name
    shutil.copy(signed, other)
    with zipfile.ZipFile(other, "a") as archive:
        archive.writestr("evil.pth", "import sys")
    with checked(signed, key) as content:
        other.replace(signed)
        with unpacked(signed, content) as package:
            assert (package / "manifest.json").is_file()
            assert not (package.parent / "evil.pth").exists()
    with checked(signed, None) as content, pytest.raises(AotpackError, match="lies outside"):
        unpacked(signed, content).__enter__()
