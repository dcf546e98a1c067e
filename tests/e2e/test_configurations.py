"""Autotuned kernels of the user's: every configuration is a form of the launch."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import wrap_triton

import aotpack
from aotpack.emit import write_package
from aotpack.ir.foreign import Foreign
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.runtime import load
from aotpack.runtime.plan import flat
from aotpack.runtime.tuning.tune import tune
from aotpack.target import parse_targets
from aotpack.tune import read_decisions
from tests.tune.packages import file_of, forms_of, preferring

from .autotuned_kernels import (
    HOOKED,
    MODELLED,
    OTHER_ANSWER,
    OTHER_NAMES,
    OTHERS_BOUNDED,
    OWN_HOOK,
    PLAIN,
    PRUNED,
    doubled,
    move_kernel,
)
from .models import Function
from .user_kernels import row_sums

X = torch.randn(7, 5)
ROWS = ({0: torch.export.Dim("rows", min=1, max=64)},)


def built(
    function: Callable[..., Any],
    candidates: int = 9,
    *,
    targets: str = "interpreter",
    tuning: Path | None = None,
) -> Build:
    """A model of one input with rows, of any number."""
    decisions = read_decisions(tuning, candidates)
    options = BuildOptions(parse_targets(targets), decisions=decisions)
    return Build(Source(Function(function, 1), (X,), None, ROWS, "model"), options)


def launched(build: Build) -> Foreign:
    (found,) = (one for one in build.lowered.program.operations if isinstance(one, Foreign))
    return found


def blocks(build: Build) -> list[str]:
    """The sizes of blocks of each configuration that a program has."""
    call = launched(build)
    kernels = (call.kernel, *(other.kernel for other in call.others))
    return [text for kernel in kernels for name, text in kernel.parameters if name == "BLOCK"]


@pytest.mark.row("S:H15", "C:K1")
def test_each_configuration_answers_with_a_grid_of_its_own(tmp_path: Path) -> None:
    made = built(lambda x: doubled(PLAIN)(x.exp()) + 1)
    write_package(made.precompiled, tmp_path / "model")
    with load(tmp_path / "model", InterpreterDevice()) as model:
        key, forms = next(i for i in forms_of(model, 7).items() if i[0].startswith("body"))
        files = [file_of(preferring(model, n, 7), tmp_path / str(n)) for n in range(3)]
    launches = [next(flat(form)) for form in forms]
    assert [launch.grid[0] for launch in launches] == [9, 5, 3]
    for number, file in enumerate(files):
        with load(tmp_path / "model", InterpreterDevice(), tuning=file) as model:
            taken = dict(forms_of(model, 7))[key][number]
            for rows in (7, 1, 64):
                x = torch.randn(rows, 5)
                torch.testing.assert_close(torch.from_dlpack(model(x)), x.exp() * 2 + 1)
        again = built(lambda x: doubled(PLAIN)(x.exp()) + 1, 1, tuning=file)
        assert next(flat(taken)).kernel in again.rendered.wrapper
        assert again.rendered.choices == ()


@pytest.mark.row("S:H15")
@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (PLAIN, ["4", "8", "16"]),
        (PRUNED, ["8", "4"]),
        (MODELLED, ["16", "8"]),
        (OTHERS_BOUNDED, ["4", "16"]),
    ],
    ids=["all", "pruned", "by a model", "without those of unknown options"],
)
def test_pruning_says_which_and_the_first_is_taken(kernel: Any, wanted: Sequence[str]) -> None:
    assert blocks(built(doubled(kernel))) == wanted
    (only,) = (one for one in built(doubled(kernel), 1).rendered.kernels if "body" in one.name)
    assert f"BLOCK={wanted[0]})" in only.text


@pytest.mark.row("S:H15", "C:K1")
def test_gpus_get_a_binary_of_each_form() -> None:
    made = built(doubled(PLAIN), targets="sm_80")
    names = {kernel.name for kernel in made.rendered.kernels}
    assert {one.kernel for one in made.precompiled.binaries} == names and len(names) == 3
    assert sorted(one.num_warps for one in made.precompiled.binaries) == [1, 1, 2]


class Watching(InterpreterDevice):
    """Sees what is stored back before runs of kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        self.sizes.append(size)
        super().copy(target, source, size, stream)


def moved(x: Tensor) -> tuple[Tensor, Tensor]:
    """What a kernel stores at a place that it moves, and the place."""
    at, out = x[:1, 0].to(torch.int32) * 0 + 3, torch.empty(20, dtype=torch.int32)
    wrap_triton(move_kernel)[(1,)](at, out, 20)
    return at, out


@pytest.mark.row("S:H15", "S:N7")
def test_tuning_puts_back_what_a_kernel_changes_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aotpack.runtime.tuning.tune.MOST_COPIES", 1)  # else as many as time allows
    write_package(built(moved).precompiled, tmp_path / "model")
    device = Watching()
    ((place, choices),) = tune(tmp_path / "model", device).items()
    times = next(some for key, some in choices.items() if key.startswith("move_kernel"))
    assert all(len(one.microseconds) == 2 for one in times)
    assert device.sizes.count(4) > 2 * 2 * 7  # before every run, of which each round has some
    with load(
        tmp_path / "model", InterpreterDevice(), tuning=file_of({place: choices}, tmp_path)
    ) as m:
        at, out = (torch.from_dlpack(one) for one in m(X))
    assert at.tolist() == [4] and torch.equal(out, torch.arange(3, 23, dtype=torch.int32))


@pytest.mark.row("S:H15")
def test_what_is_only_written_is_not_put_back() -> None:
    (kernel,) = (one for one in built(doubled(PLAIN), 1).rendered.kernels)
    assert [arg.is_in_place for arg in kernel.args] == [False, False, False]
    (kernel,) = (k for k in built(moved, 1).rendered.kernels if "move" in k.name)
    assert [arg.is_in_place for arg in kernel.args] == [True, False]


@pytest.mark.row("S:H15")
def test_sums_that_tuning_resets_start_where_the_model_says(tmp_path: Path) -> None:
    made = built(lambda x: row_sums(x.contiguous()))
    write_package(made.precompiled, tmp_path / "model")
    found = tune(tmp_path / "model", InterpreterDevice())
    with load(tmp_path / "model", InterpreterDevice(), tuning=file_of(found, tmp_path)) as model:
        for _ in range(2):
            sums, total = (torch.from_dlpack(one) for one in model(X))
            torch.testing.assert_close(sums, X.sum(1))
            torch.testing.assert_close(total, X.sum().reshape(1))


@pytest.mark.row("S:H15", "S:H16")
@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (OWN_HOOK, "pre_hook"),
        (HOOKED, "pre_hook"),
        (OTHER_ANSWER, "in_turns gives another out_ptr in the configuration BLOCK=8 than in its"),
        (OTHER_NAMES, "configurations of its kernel body give values to different parameters"),
    ],
    ids=["a hook", "a hook of all", "another answer", "other names"],
)
def test_what_would_answer_otherwise_is_refused(kernel: Any, words: str) -> None:
    with pytest.raises(aotpack.AotpackError, match=words):
        assert built(doubled(kernel)).rendered


@pytest.mark.gpu
@pytest.mark.row("S:H15", "S:N7", "S:I4")
def test_a_gpu_times_them_and_takes_the_quickest(tmp_path: Path) -> None:
    made = built(lambda x: (doubled(PLAIN)(x.exp()) + 1, *moved(x)), targets="native")
    write_package(made.precompiled, tmp_path / "model")
    found = tune(tmp_path / "model", 0)
    (choices,) = found.values()
    for name, forms in (("body", 3), ("move_kernel", 2)):
        (times,) = (some for key, some in choices.items() if key.startswith(name))
        assert all(len(one.microseconds) == forms for one in times)
    with load(tmp_path / "model", 0, tuning=file_of(found, tmp_path)) as model:
        for _ in range(3):  # launches, a recording, a graph
            y, at, out = (torch.from_dlpack(one).cpu() for one in model(X.cuda()))
            torch.testing.assert_close(y, X.exp() * 2 + 1)
            assert at.tolist() == [4]
            assert torch.equal(out, torch.arange(3, 23, dtype=torch.int32))
