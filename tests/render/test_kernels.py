"""Each launch's variants as sources: for whom they are, what a part may be."""

import torch
from torch import nn
from torch.export import Dim

from aotpack.render import render
from aotpack.stages import Decisions
from aotpack.target import CPU, Target
from tests.schedule.programs import scheduled

from .models import H100, Gelu, Softmax, rendered
from .test_wrapper import plan_of

BF16 = torch.bfloat16
SM = {arch: Target("cuda", arch) for arch in (80, 90)}


def test_every_target_gets_its_language_and_no_other() -> None:
    x = torch.zeros(64, 64)
    languages = [
        {kernel.language for kernel in rendered(Softmax(), x, targets=targets).kernels}
        for targets in (H100, (CPU,), (*H100, CPU))
    ]
    assert languages == [{"triton"}, {"c"}, {"triton", "c"}]


def test_a_schedule_for_one_architecture_has_sources_for_it_alone() -> None:
    """Few long rows are resident on sm_90; elsewhere they are walked."""
    product = rendered(Softmax(), torch.zeros(2, 132_096, dtype=BF16), targets=tuple(SM.values()))
    launched = {arch: {one.kernel for one in plan_of(product)(arch).launches} for arch in SM}
    assert not launched[80] & launched[90]
    for kernel in product.kernels:
        wanted = {arch for arch, names in launched.items() if kernel.name in names}
        assert {arch for arch in SM if kernel.is_for(arch)} == wanted


def test_one_schedule_for_all_is_one_source() -> None:
    (kernel,) = rendered(Softmax(), torch.zeros(64, 64), targets=tuple(SM.values())).kernels
    assert kernel.is_for(80) and kernel.is_for(90) and not kernel.is_for(0)


class Repeated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def test_forms_are_left_open_outside_of_branches_alone() -> None:
    """Nobody can time what is inside one by itself."""
    dynamic = {"x": {0: Dim("b", min=1, max=64)}}
    product = scheduled(Repeated(), torch.zeros(4, 300), dynamic_shapes=dynamic)
    several, single = (render(product, H100, Decisions(n)) for n in (3, 1))
    names = {key.split("_")[0] for key in several.choices}
    assert names and not names & {"sin", "cos"}
    assert single.choices == ()
    plain = scheduled(Gelu(), torch.zeros(64, 64), torch.zeros(64, 64))
    assert render(plain, H100, Decisions(3)).choices
