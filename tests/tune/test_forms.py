"""Every form of every launch gives right answers, and measurements decide which is taken."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from aotpack.devices import H200
from aotpack.render import render
from aotpack.runtime.plan import Buffer, Form, Launch, flat
from aotpack.runtime.selftest import check_golden
from aotpack.runtime.tuning_file import form_name
from aotpack.stages import Decisions, Rendered
from aotpack.target import CPU, INTERPRETER, Target
from aotpack.tune import read_decisions, unused
from tests.render.models import Gelu
from tests.render.test_wrapper import plan_of
from tests.schedule.programs import scheduled
from tests.tune.packages import CASES, PackedWeight, file_of, forms_of, opened, packed, preferring

SIZES = {"rows": (6,), "products": (5,), "attention": (), "apart": ()}
ON_CPU = ("rows", "products")
LOOPS = ("rows", "products", "attention", "apart")
RUNS = [(name, INTERPRETER) for name in LOOPS] + [(name, CPU) for name in ON_CPU]


class Sums(nn.Module):
    """Sums of few long rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1)


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: f"{run[0]}-{run[1]}")
def package(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PackedWeight:
    name, target = request.param
    return packed(name, target, tmp_path_factory.mktemp("tune"), Decisions(9))


def taken(package: PackedWeight, number: int, folder: Path) -> Iterator[tuple[str, str, str]]:
    """(key, the n-th form, what a build with such a file launches) for each choice."""
    name = package.folder.name
    with closing(opened(package)) as model:
        tuning = preferring(model, number, *SIZES[name])
        forms = forms_of(model, *SIZES[name])
    target = package.product.targets[0]
    built = packed(name, target, folder, read_decisions(file_of(tuning, folder)))
    assert built.product.rendered.choices == ()
    kernels = {kernel.name for kernel in built.product.rendered.kernels}
    for key, some in forms.items():
        best = some[min(number, len(some) - 1)]
        yield key, form_name(best), "+".join(n.kernel for n in flat(best) if n.kernel in kernels)


@pytest.mark.row("C:L5", "C:K1")
def test_every_form_is_right(package: PackedWeight, tmp_path: Path) -> None:
    sizes = SIZES[package.folder.name]
    with closing(opened(package)) as model:
        most = max(map(len, forms_of(model, *sizes).values()))
        files = [file_of(preferring(model, n, *sizes), tmp_path / str(n)) for n in range(most)]
    assert most > 1
    for file in files:
        with closing(opened(package, file)) as model:
            failed = [check for check in check_golden(model, model) if not check.is_passed]
        assert failed == []


@pytest.mark.row("S:M16", "S:N1")
@pytest.mark.parametrize("name", ON_CPU)
def test_a_build_takes_what_was_quickest(name: str, tmp_path: Path) -> None:
    package = packed(name, CPU, tmp_path, Decisions(2))
    choices = list(taken(package, 1, tmp_path / "again"))
    assert choices and all(form == launched for _, form, launched in choices)


def test_a_measurement_of_another_kernel_or_target_decides_nothing(tmp_path: Path) -> None:
    package = packed("rows", CPU, tmp_path, Decisions(2))
    with closing(opened(package)) as model:
        ((place, choices),) = preferring(model, 1, 6).items()
    other = {f"{key} while b <= 7": times for key, times in choices.items()}
    for tuning, stale in (({place: other}, len(other)), ({("gpu", "sm_90"): choices}, 0)):
        decisions = read_decisions(file_of(tuning, tmp_path))
        built = packed("rows", CPU, tmp_path / str(stale), decisions).product.rendered
        assert built.settled == ()
        assert unused(decisions, built.settled, ("cpu",)) == stale
        plain = packed("rows", CPU, tmp_path / "plain", Decisions()).product.rendered
        assert built.wrapper == plain.wrapper and built.kernels == plain.kernels


@pytest.mark.row("S:M16")
def test_targets_are_decided_one_by_one() -> None:
    module, x = Gelu(), torch.zeros(64, 64)
    targets = (Target("cuda", 80), Target("cuda", 90))
    product = scheduled(module, x, x)
    several = render(product, targets, Decisions(2))
    (key,) = several.choices
    second = several.kernels[1].name
    built = render(product, targets, Decisions(1, {("sm_90", key): second}))
    assert built.settled == (("sm_90", key),)
    arches = {kernel.name: kernel.arches for kernel in built.kernels}
    assert arches == {several.kernels[0].name: ((80, 80),), second: ((90, 90),)}
    for arch, kernel in zip((80, 90), several.kernels, strict=True):
        (launch,) = plan_of(built)(arch).launches
        assert launch.kernel == kernel.name


@pytest.mark.row("S:N4", "C:K4", "C:L10")
def test_small_kernels_share_a_launch_unless_apart_was_quicker() -> None:
    module, args, _ = CASES["apart"]
    product = scheduled(module, *args)
    targets = (Target("cuda", 90),)
    together = render(product, targets, Decisions(2))
    key = next(key for key in together.choices if "more" in key)
    first, *_ = plan_of(together)(90).launches
    apart = forms(together)[key][1]
    assert isinstance(first, Launch) and len(list(flat(apart))) == 2
    built = render(product, targets, Decisions(1, {("sm_90", key): form_name(apart)}))
    assert plan_of(built)(90).launches[0] == apart


def forms(product: Rendered) -> dict[str, tuple[Form, ...]]:
    """The forms of each choice of a package for sm_90."""
    found: dict[str, tuple[Form, ...]] = {}

    def pick(key: str, *some: Form) -> Form:
        found[key] = some
        return some[0]

    plan_of(product)(90, pick=pick)
    return found


@pytest.mark.row("S:N2", "C:K3")
def test_a_product_keeps_what_follows_it_unless_two_launches_were_quicker() -> None:
    module, args, _ = CASES["products"]
    product = scheduled(module, *args, offers_unfused=True)
    targets = (Target("cuda", 90),)
    fused = render(product, targets, Decisions(3))
    key = next(key for key in fused.choices if key.startswith("linear_gelu"))
    apart = forms(fused)[key][2]
    first, behind = flat(apart)
    assert (first.kernel.rpartition("_")[0], first.args[-1]) == ("linear", behind.args[0])
    built = render(product, targets, Decisions(1, {("sm_90", key): form_name(apart)}))
    plan, plain = plan_of(built)(90), plan_of(render(product, targets))(90)
    assert plan.launches[0] == apart and len(plan.launches) == len(plain.launches)
    (passed,) = set(plan.buffers) - set(plain.buffers)
    assert passed == Buffer(str(behind.args[0]), 4 * 5 * 24, 0, 0)
    assert built.peak_bytes > render(product, targets).peak_bytes


@pytest.mark.row("C:G19")
def test_a_launch_is_completed_by_its_own_programs_unless_two_were_quicker() -> None:
    """Counters are there whichever form is picked."""
    product = scheduled(Sums(), torch.empty(4, 2**18))
    targets = (Target("cuda", 90),)
    together = render(product, targets, Decisions(20))
    (key,) = together.choices
    first, *_, apart = forms(together)[key]
    assert isinstance(first, Launch) and len(list(flat(apart))) == 2
    (counter,) = plan_of(together)(90).counters
    assert first.args[-1] == counter.name and counter.size == 4 * 4
    built = render(product, targets, Decisions(1, {("sm_90", key): form_name(apart)}))
    assert plan_of(built)(90).launches == (apart,)


@pytest.mark.row("S:N3", "S:inv43", "C:L5")
@pytest.mark.parametrize("target", [INTERPRETER, CPU], ids=str)
def test_a_fused_kernel_is_right_in_parts(target: Target, tmp_path: Path) -> None:
    package = packed("parted", target, tmp_path, Decisions(3), replace(H200, launch=0.0))
    with closing(opened(package)) as model:
        parted = [some for some in forms_of(model).values() if len(list(flat(some[-1]))) > 1]
        tuning = preferring(model, 2)
    assert parted
    with closing(opened(package, file_of(tuning, tmp_path))) as model:
        assert all(check.is_passed for check in check_golden(model, model))


@pytest.mark.row("S:N3", "C:K3")
def test_a_reduction_keeps_its_partner_unless_two_launches_were_quicker() -> None:
    product = scheduled(torch.nn.Softmax(-1), torch.zeros(512, 1024), offers_unfused=True)
    targets = (Target("cuda", 90),)
    fused = render(product, targets, Decisions(3))
    ((key, (_, _, apart)),) = forms(fused).items()
    first, behind = flat(apart)
    built = render(product, targets, Decisions(1, {("sm_90", key): form_name(apart)}))
    plan, plain = plan_of(built)(90), plan_of(render(product, targets))(90)
    assert plan.launches == (apart,) and len(plain.launches) == 1
    rows = 4 * 512
    assert plan.buffers == tuple(Buffer(str(name), rows, 0, 0) for name in first.args[1:])
    assert set(first.args) & set(behind.args) == {"input", "softmax_max", "softmax_sum"}
