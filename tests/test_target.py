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
        ("gpu", "'gpu' is not known; .*; did you mean 'native', the GPU of this machine"),
        ("x86-64", "'x86-64' is not known; .*; did you mean 'cpu'. --cpu-arch says which"),
        ("gfx942", "not built by this version .AMD code objects.*accepted are"),
        ("9.0a+PTX", "'9.0a\\+PTX' is two targets, and one is accepted here"),
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


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("sm_80+PTX", ["sm_80", "ptx_80"]),
        ("8.6+ptx", ["sm_86", "ptx_86"]),
        ("9.0+PTX", ["sm_90", "ptx_89"]),  # the text of 9.0 runs on no later GPU
        ("sm_80,sm_120+PTX", ["sm_80", "sm_120", "ptx_89"]),
    ],
)
def test_ptx_is_a_target_of_its_own(text: str, targets: list[str]) -> None:
    assert [str(target) for target in parse_targets(text)] == targets


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cpu+PTX", "'cpu\\+PTX': PTX is for GPUs; accepted before \\+PTX are sm_80"),
        ("sm_75+PTX", "'sm_75' is not supported"),
        ("+PTX", "'' is not known"),
        ("sm_90+PTX+PTX", "'sm_90\\+PTX' is two targets"),
    ],
)
def test_ptx_of_other_targets_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_targets(text)


def test_text_serves_later_gpus_and_code_does_not() -> None:
    text = Target("ptx", 89)
    assert [text.serves(one) for one in (80, 89, 90, 100, 121)] == [False, True, True, True, True]
    assert not Target("cuda", 90).serves(100)


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


def test_a_backend_is_one_of_four() -> None:
    assert str(Target("cuda", 90)) == "sm_90"
    with pytest.raises(UsageError, match="backend 'sm_90' is not known; .* Target.parse"):
        Target("sm_90")
