from pathlib import Path

import pytest

from aotpack.errors import UsageError
from aotpack.knobs import read_knobs


def test_knobs_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTPACK_DUMP", "/tmp/dump")
    monkeypatch.setenv("AOTPACK_VERIFY", "1")
    monkeypatch.setenv("AOTPACK_CACHE", "/tmp/cache")
    monkeypatch.setenv("AOTPACK_JOBS", "3")
    monkeypatch.setenv("AOTPACK_TIMEOUT", "60")
    monkeypatch.setenv("AOTPACK_CC", "clang -v")
    monkeypatch.setenv("AOTPACK_CFLAGS", "-g '-DA=\"b c\"'")
    knobs = read_knobs()
    assert knobs.verifies_passes and knobs.timeout == 60
    assert knobs.compiler == "clang -v"
    assert knobs.compiler_flags == ("-g", '-DA="b c"')
    assert (knobs.dump, knobs.cache, knobs.jobs) == (Path("/tmp/dump"), Path("/tmp/cache"), 3)


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DUMP", "VERIFY", "CACHE", "JOBS", "TIMEOUT", "CC", "CFLAGS"):
        monkeypatch.delenv(f"AOTPACK_{name}", raising=False)
    knobs = read_knobs()
    assert knobs.compiler is None and knobs.compiler_flags == ()
    assert knobs.dump is None and not knobs.verifies_passes
    assert knobs.cache is not None and knobs.cache.name == "aotpack"
    assert knobs.jobs >= 1 and knobs.timeout == 3600


def test_the_cache_can_be_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTPACK_CACHE", "off")
    assert read_knobs().cache is None


@pytest.mark.parametrize("name", ["AOTPACK_JOBS", "AOTPACK_TIMEOUT"])
@pytest.mark.parametrize("text", ["0", "-1", "two"])
def test_a_wrong_number_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(UsageError, match="whole number from 1"):
        read_knobs()


@pytest.mark.parametrize("text", ["yes", "2"])
def test_a_switch_is_on_or_off(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("AOTPACK_VERIFY", text)
    with pytest.raises(UsageError, match="AOTPACK_VERIFY='.*' is not accepted; it takes 0 or 1"):
        read_knobs()
