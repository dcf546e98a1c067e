import pytest

from aotpack import target as target_module
from aotpack.errors import UsageError
from aotpack.target import (
    CPU,
    DEFAULT_TARGETS,
    INTERPRETER,
    SUPPORTED_ARCHES,
    Target,
    native_target,
    parse_targets,
)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("sm_90", Target("cuda", 90)),
        ("SM_90a", Target("cuda", 90)),
        ("9.0", Target("cuda", 90)),
        ("9.0a", Target("cuda", 90)),
        ("12.0", Target("cuda", 120)),
        (" sm_80 ", Target("cuda", 80)),
        ("interpreter", INTERPRETER),
        ("CPU", CPU),
    ],
)
def test_each_spelling_parses(text: str, target: Target) -> None:
    assert Target.parse(text) == target


@pytest.mark.parametrize("target", [*DEFAULT_TARGETS, INTERPRETER, CPU])
def test_print_and_parse_are_a_pair(target: Target) -> None:
    assert Target.parse(str(target)) == target


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sm_75", "'sm_75' is not supported; accepted are sm_80, sm_86"),
        ("sm_80a", "'sm_80a' is not supported"),
        ("sm90", "'sm90' is not known"),
        ("", "'' is not known"),
        ("gfx942", "not built by this version .AMD code objects.*accepted are"),
        ("9.0a+PTX", "not built by this version .PTX text"),
    ],
)
def test_other_spellings_are_refused_with_what_is_accepted(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Target.parse(text)


def test_a_list_is_sorted_and_each_target_counts_once() -> None:
    assert [str(t) for t in parse_targets(["sm_120,9.0", "sm_90a", "interpreter"])] == [
        "sm_90",
        "sm_120",
        "interpreter",
    ]


def test_all_means_every_gpu_target() -> None:
    assert [t.arch for t in parse_targets("all")] == list(SUPPORTED_ARCHES)


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(UsageError, match="no target is given"):
        parse_targets([])


@pytest.mark.parametrize(("found", "chosen"), [(90, 90), (87, 86), (80, 80)])
def test_native_takes_what_runs_on_the_gpu(
    monkeypatch: pytest.MonkeyPatch, found: int, chosen: int
) -> None:
    monkeypatch.setattr(target_module, "device_arch", lambda: found)
    assert native_target() == Target("cuda", chosen)


@pytest.mark.parametrize(
    ("found", "complaint"), [(None, "no driver with a GPU was found"), (121, "is sm_121")]
)
def test_native_refuses_where_nothing_runs(
    monkeypatch: pytest.MonkeyPatch, found: int | None, complaint: str
) -> None:
    monkeypatch.setattr(target_module, "device_arch", lambda: found)
    with pytest.raises(UsageError, match=complaint):
        native_target()
