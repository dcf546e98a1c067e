"""Weights requested ahead: by products with few weights that wait, of ones that stream many."""

from itertools import pairwise

import torch
from torch import nn

from aotpack.early_start import FIRST_ARCH
from aotpack.precompile.request import Request
from aotpack.target import Target
from tests.ptx import ptx
from tests.render.models import rendered
from tests.schedule.programs import scheduled

BF16 = torch.bfloat16
REQUEST = "cp.async.bulk.prefetch.L2"


def sequence(*widths: int) -> tuple[nn.Module, torch.Tensor]:
    with torch.device("meta"):
        pairs = pairwise(widths)
        model = nn.Sequential(*(nn.Linear(*sides, bias=False) for sides in pairs))
    return model.to_empty(device="cpu").to(BF16), torch.zeros(1, widths[0], dtype=BF16)


def test_a_short_product_requests_the_weights_of_a_long_one() -> None:
    first, second = scheduled(*sequence(1024, 2048, 8192)).schedule.kernels
    assert first.ahead == "1.weight" and second.ahead == ""
    first, second = scheduled(*sequence(1024, 2048, 4096)).schedule.kernels
    assert first.ahead == second.ahead == ""


def test_programs_request_before_they_wait_and_older_gpus_do_not() -> None:
    (kernel,) = (k for k in rendered(*sequence(1024, 2048, 8192)).kernels if REQUEST in k.text)
    entry = ptx(kernel, FIRST_ARCH)
    assert entry.index(REQUEST) < entry.index("griddepcontrol.wait")
    assert REQUEST not in Request.of(kernel, Target("cuda", 80)).text
