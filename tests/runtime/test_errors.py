"""The errors of several packages in one process, told apart by kind; suggestions in messages."""

import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import aotpack
from aotpack.errors import UsageError, printable, printable_lines
from aotpack.runtime.errors import did_you_mean

from .packages import write_demo

VERBS = ("build", "inspect", "verify")


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    """Two installed packages, imported."""
    names = ("first_demo", "second_demo")
    for name in names:
        write_demo(tmp_path / name)
    monkeypatch.syspath_prepend(tmp_path)
    yield tuple(importlib.import_module(name) for name in names)
    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[name]


def raised(package: ModuleType) -> Exception:
    """An error that a package itself raises."""
    try:
        package.load(device="tpu")
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_one_base_class_serves_every_package_and_aotpack(two: tuple[ModuleType, ...]) -> None:
    first, second = two
    assert first.AotpackError is not second.AotpackError
    errors = [raised(first), raised(second), UsageError("x")]
    for base in (first.AotpackError, second.AotpackError, aotpack.AotpackError):
        assert [isinstance(error, base) for error in errors] == [True] * 3
        assert not isinstance(ValueError("x"), base)
        assert issubclass(UsageError, base) and not issubclass(Exception, base)


def test_a_kind_is_that_kind_in_every_package(two: tuple[ModuleType, ...]) -> None:
    first, second = two
    kinds = [name for name in first.__all__ if name.endswith(("Error", "Failed"))]
    kinds.remove("AotpackError")
    for name in kinds:
        error = getattr(first, name)("x")
        found = [other for other in kinds if isinstance(error, getattr(second, other))]
        assert found == [name]


def test_a_users_own_class_has_its_own_instances_alone(two: tuple[ModuleType, ...]) -> None:
    first, second = two

    class Refused(first.ArgumentError):  # type: ignore[name-defined, misc]
        pass

    assert isinstance(Refused("x"), second.ArgumentError)
    assert not isinstance(first.ArgumentError("x"), Refused)
    assert not isinstance(second.ArgumentError("x"), Refused)


def test_except_asks_for_base_classes(two: tuple[ModuleType, ...]) -> None:
    first, second = two
    with pytest.raises(first.AotpackError):
        raise raised(first)
    both = (first.AotpackError, second.AotpackError)
    try:
        raise raised(second)
    except first.AotpackError:
        caught = "by another package's class"
    except both:
        caught = "by the tuple"
    assert caught == "by the tuple"


@pytest.mark.parametrize("text", ["", "plain text", "é", "名前", "<b>&'\"\\"])
def test_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == printable_lines(text) == str(UsageError(text)) == text


def test_what_a_terminal_obeys_is_escaped() -> None:
    ruling = [*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    for character in map(chr, [*ruling, 0x2028, 0xD800]):
        escaped = ascii(character)[1:-1]
        kept = character if character in "\n\t" else escaped
        assert printable(f"a{character}b") == f"a{escaped}b"
        assert printable_lines(f"a{character}b") == str(UsageError(f"a{character}b")) == f"a{kept}b"


def test_errors_cross_processes(two: tuple[ModuleType, ...]) -> None:
    first, second = two
    error = pickle.loads(pickle.dumps(first.WeightError("x")))
    assert isinstance(error, second.WeightError) and str(error) == "x"


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("biuld", "; did you mean 'build'?"),
        ("VERIFY", "; did you mean 'verify'?"),
        ("insepct", "; did you mean 'inspect'?"),
    ],
)
def test_a_near_name_is_suggested(found: str, told: str) -> None:
    assert did_you_mean(found, VERBS) == told


@pytest.mark.parametrize("found", ["", "x", "model.py"])
def test_a_distant_name_suggests_nothing(found: str) -> None:
    assert did_you_mean(found, VERBS) == ""
