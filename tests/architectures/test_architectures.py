"""Every architecture of the table, static and dynamic, is as near to float64 as eager is."""

import copy
import itertools
from collections.abc import Iterator, Sequence

import pytest
import torch
import transformers
from torch.export import Dim

import aotpack
from tests.c_flags import BASE_ONLY, shipped

from .table import ARCHITECTURES, HIGHEST, Architecture, Sizes

EXAMPLE = {"b": 3, "s": 11}
CALLS = (EXAMPLE, {"b": 1, "s": 32}, {"b": 5, "s": 1}, {"b": 2, "s": 17})
STATIC = tuple(ARCHITECTURES)[::6]  # on a GPU all of them are
EPS = torch.finfo(torch.float32).eps


@pytest.fixture(autouse=True, scope="module")
def _silent() -> Iterator[None]:
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(before)


def is_new_torch() -> bool:
    """False for versions whose export gives many models' lengths a guard they cannot keep."""
    return torch.__version__ >= "2.13"


def check(
    architecture: Architecture, calls: Sequence[Sizes], *, dynamic: bool, target: str = "cpu"
) -> None:
    """The accuracy law over all calls: at most 1.5 times eager's error and a unit at the scale."""
    module = architecture.make()
    example = architecture.inputs(EXAMPLE)
    names = architecture.sizes if is_new_torch() else ("b",)
    dims = {name: Dim(name, min=1, max=HIGHEST[name]) for name in names}
    shapes = tuple(
        {d: dims[n] for d, n in each.items() if n in dims} for each in architecture.dynamic
    )
    model = aotpack.compile(
        module,
        example,
        dynamic_shapes={"args": shapes} if dynamic else None,
        target=target,
    )
    device = "cpu" if target == "cpu" else "cuda"
    module, wide = module.to(device), copy.deepcopy(module).double().cpu()
    if dynamic and not is_new_torch():
        calls = [sizes | {"s": EXAMPLE["s"]} for sizes in calls]
    ours = eager = scale = 0.0
    for sizes in calls:
        args = architecture.inputs(sizes)
        with torch.no_grad(), torch.backends.cudnn.flags(allow_tf32=False):  # errors of float32
            exact = wide(*(x.double() if x.is_floating_point() else x for x in args))
            theirs = module(*(x.to(device) for x in args)).cpu()
        found = model(*(x.to(device) for x in args)).cpu()
        assert found.shape == exact.shape and bool(found.isfinite().all())
        ours = max(ours, float((found - exact).abs().max()))
        eager = max(eager, float((theirs - exact).abs().max()))
        scale = max(scale, float(exact.abs().max()))
    assert ours <= 1.5 * eager + EPS * scale


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_dynamic(name: str) -> None:
    """Compiled with little effort; ``test_static`` has that of what is shipped."""
    check(ARCHITECTURES[name], CALLS, dynamic=True)


@pytest.mark.parametrize(
    ("name", "flags"),
    list(zip(STATIC, itertools.cycle((shipped(), BASE_ONLY)), strict=False)),
    ids=STATIC,
)
def test_static(name: str, flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is shipped, and every second one as processors without AVX-512 run it."""
    monkeypatch.setenv("AOTPACK_CFLAGS", flags)
    check(ARCHITECTURES[name], (EXAMPLE,), dynamic=False)


@pytest.mark.gpu
@pytest.mark.parametrize("dynamic", [True, False], ids=["dynamic", "static"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gpu(name: str, dynamic: bool) -> None:
    calls = CALLS if dynamic else (EXAMPLE,)
    check(ARCHITECTURES[name], calls, dynamic=dynamic, target="native")


def test_the_table_names_each_family_once() -> None:
    assert len(ARCHITECTURES) == 47
    assert all(name == entry.name for name, entry in ARCHITECTURES.items())
