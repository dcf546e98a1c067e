import json
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from aotpack.errors import UsageError
from aotpack.precompile.cache import KernelCache
from aotpack.stages import Binary

BINARY = Binary("k", "sm_90", "k", b"\x7fELF\n\0code\n", "cubin", 4, 1, 2048, 0, 1, 32, 0)
KEY = "ab" + "0" * 62
OTHER_USER = 12345


def anything(binary: Binary) -> None:
    """Accepts every binary."""


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_is_put_is_found(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    assert cache.get(KEY, anything) is None
    cache.put(KEY, BINARY)
    assert KernelCache(tmp_path).get(KEY, anything) == BINARY


def sealed(facts: object, code: bytes = BINARY.code) -> bytes:
    """An entry whose digest fits: what whoever plants one would write."""
    body = json.dumps(facts).encode() + b"\n" + code
    return sha256(body).hexdigest().encode() + b"\n" + body


FACTS = {
    "kernel": "k",
    "target": "sm_90",
    "symbol": "k",
    "suffix": "cubin",
    "num_warps": 4,
    "num_ctas": 1,
    "shared": 2048,
    "global_scratch": 0,
    "global_scratch_align": 1,
    "registers": 32,
    "spills": 0,
    "starts_early": False,
}
DAMAGE = {
    "cut off": lambda entry: entry[:-1],
    "empty": lambda _: b"",
    "a byte": lambda entry: entry.replace(b"code", b"edoc"),
    "a field too many": lambda _: sealed(FACTS | {"color": 1}),
    "a field too few": lambda _: sealed({k: v for k, v in FACTS.items() if k != "spills"}),
    "a text for a number": lambda _: sealed(FACTS | {"shared": "2048"}),
    "a bool for a number": lambda _: sealed(FACTS | {"shared": True}),
    "a negative number": lambda _: sealed(FACTS | {"shared": -1}),
    "a list for a text": lambda _: sealed(FACTS | {"symbol": ["k"]}),
    "no object": lambda _: sealed([1, 2]),
    "no JSON": lambda _: sha256(b"{\n").hexdigest().encode() + b"\n{\n",
    "deep JSON": lambda _: (
        sha256(b"[" * 99_999 + b"\n").hexdigest().encode() + b"\n" + b"[" * 99_999 + b"\n"
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_counts_as_absent_and_is_removed(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache = KernelCache(tmp_path)
    cache.put(KEY, BINARY)
    (entry,) = entries(tmp_path)
    entry.write_bytes(damage(entry.read_bytes()))
    assert cache.get(KEY, anything) is None
    assert not entry.exists()
    cache.put(KEY, BINARY)
    assert cache.get(KEY, anything) == BINARY


def test_the_entries_above_differ_from_a_good_one_in_one_place(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    cache.put(KEY, BINARY)
    entries(tmp_path)[0].write_bytes(sealed(FACTS))
    assert cache.get(KEY, anything) == BINARY


def test_an_entry_that_is_not_what_was_asked_for_is_removed(tmp_path: Path) -> None:
    def check(binary: Binary) -> None:
        raise ValueError("another kernel")

    cache = KernelCache(tmp_path)
    cache.put(KEY, BINARY)
    assert cache.get(KEY, check) is None and entries(tmp_path) == []


def test_an_entry_of_another_version_is_never_read(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    for old in (tmp_path / "kernels" / KEY[:2] / KEY, tmp_path / "kernels" / "0123456789ab" / KEY):
        old.parent.mkdir(parents=True)
        old.write_bytes(sealed({"kernel": "k", "colour": 1}))
    assert cache.get(KEY, anything) is None
    cache.put(KEY, BINARY)
    assert cache.get(KEY, anything) == BINARY


def test_writers_at_the_same_time_leave_one_whole_entry(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    large = replace(BINARY, code=bytes(300_000))
    writers = [threading.Thread(target=cache.put, args=(KEY, large)) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert cache.get(KEY, anything) == large
    assert len(entries(tmp_path)) == 1


def test_without_a_folder_nothing_is_kept() -> None:
    cache = KernelCache(None)
    cache.put(KEY, BINARY)
    assert cache.get(KEY, anything) is None


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    cache = KernelCache(file)
    cache.put(KEY, BINARY)
    assert cache.get(KEY, anything) is None


# --- who may write -----------------------------------------------------------------------------


def test_new_folders_are_this_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        KernelCache(tmp_path / "a" / "b").put(KEY, BINARY)
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "a").rglob("*") if path != tmp_path]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700, 0o600}
    assert KernelCache(tmp_path / "a" / "b").get(KEY, anything) == BINARY


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707])
@pytest.mark.parametrize("which", ["cache", "cache/kernels"])
def test_a_folder_that_others_can_write_to_is_refused(
    tmp_path: Path, which: str, mode: int
) -> None:
    folder = tmp_path / "cache"
    KernelCache(folder).put(KEY, BINARY)
    (tmp_path / which).chmod(mode)
    with pytest.raises(
        UsageError, match=rf"{which} can be written to by everyone .mode {mode:04o}"
    ):
        KernelCache(folder)
    (tmp_path / which).chmod(0o755)
    assert KernelCache(folder).get(KEY, anything) == BINARY


def test_a_parent_that_others_can_write_to_is_refused_unless_sticky(tmp_path: Path) -> None:
    parent = tmp_path / "shared"
    KernelCache(parent / "cache").put(KEY, BINARY)
    parent.chmod(0o777)
    with pytest.raises(UsageError, match=r"chmod go-w .*shared.*AOTPACK_CACHE, or set it to off"):
        KernelCache(parent / "cache")
    parent.chmod(0o1777)
    assert KernelCache(parent / "cache").get(KEY, anything) == BINARY


def test_a_link_is_followed_to_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "real").mkdir()
    (tmp_path / "link").symlink_to(Path("open") / "real")
    KernelCache(tmp_path / "link").put(KEY, BINARY)
    assert KernelCache(tmp_path / "link").get(KEY, anything) == BINARY
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UsageError, match="open can be written to by everyone"):
        KernelCache(tmp_path / "link")
    (tmp_path / "turn").symlink_to("turn")
    with pytest.raises(UsageError, match="the kernel cache"):
        KernelCache(tmp_path / "turn")


def test_a_group_of_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o775)
    monkeypatch.setattr("grp.getgrgid", lambda _: _group(["friend"]))
    with pytest.raises(UsageError, match="can be written to by its group .mode 0775"):
        KernelCache(folder)
    monkeypatch.setattr("grp.getgrgid", lambda _: _group([]))
    KernelCache(folder)


def _group(members: list[str]) -> object:
    import grp
    import pwd

    return grp.struct_group((pwd.getpwuid(os.geteuid()).pw_name, "x", 1, members))


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "cache"
    KernelCache(mine).put(KEY, BINARY)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)
    if tmp_path.stat().st_uid == 0:  # root may write anywhere: its folders are as safe as can be
        assert KernelCache(mine).get(KEY, anything) == BINARY
        os.chown(mine, OTHER_USER + 1, -1)
    with pytest.raises(UsageError, match="belongs to .*and its entries go into wheels: name"):
        KernelCache(mine)


def test_an_entry_that_others_could_write_is_removed(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    cache.put(KEY, BINARY)
    (entry,) = entries(tmp_path)
    entry.chmod(0o666)
    assert cache.get(KEY, anything) is None and not entry.exists()
    target = tmp_path / "target"
    target.write_bytes(sealed(FACTS))
    entry.symlink_to(target)
    assert cache.get(KEY, anything) is None
