"""What the other files of this folder prove without a GPU, on one: with launches and as a graph.

Control flow, Triton kernels of the user's, calls of torch between kernels, and padded rows.
"""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import aotpack

from .law import Tolerance, accuracy_complaint
from .oracle import on_gpu, tensors
from .test_control import CASES, KEPT, Case, Kept, Own, dynamic_of
from .test_fallback import Mixed, compiled
from .test_padding import BATCH, OddRows, rows
from .test_padding import CASES as PADDED
from .user_kernels import Changing, ChangingReference, Fused, FusedReference, Sums

pytestmark = pytest.mark.gpu
ROWS = torch.export.Dim("rows", min=1, max=64)
SUMS_CANCEL = Tolerance(floor=8.0)  # of the examples, numbers around 1


def widened(value: Any) -> Any:
    return pytree.tree_map(lambda x: x.double() if x.is_floating_point() else x, value)


def check(found: Any, eager: Any, exact: Any) -> None:
    for row in zip(*map(tensors, (found, eager, exact)), strict=True):
        ours, theirs, reference = (x.cpu() for x in row)  # new tensors may be where eager likes
        assert accuracy_complaint(ours, theirs, reference, SUMS_CANCEL) is None


@pytest.mark.row("S:I3", "S:I4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_control_flow(case: Case) -> None:
    torch.manual_seed(0)
    module = Own(case.step).eval()
    model = aotpack.compile(
        module, case.calls[0](), dynamic_shapes=dynamic_of(case), target="native"
    )
    module, exact = module.cuda(), copy.deepcopy(module).double().cuda()
    with torch.no_grad(), torch.device("cuda"):  # some models make tensors and do not say where
        for call in case.calls:
            args = on_gpu(call())
            for _ in range(3):  # launches, a recording, a graph
                check(model(*args), module(*args), exact(*widened(args)))


@pytest.mark.row("S:I3", "S:I4", "S:D8")
@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.name)
def test_state_through_control_flow(case: Kept) -> None:
    torch.manual_seed(0)
    module = Own(case.step).eval()
    model = aotpack.compile(module, case.calls[0](), target="native")
    module = module.cuda()
    with torch.no_grad(), torch.device("cuda"):
        for call in case.calls * 2:
            args = on_gpu(call())
            torch.testing.assert_close(model(*args), module(*args))
            torch.testing.assert_close(torch.from_dlpack(model.state["state"]), module.state)


@pytest.mark.row("S:H15")
def test_kernels_of_the_users() -> None:
    module, args = Fused(), (torch.randn(5, 8), torch.randn(5, 8))
    shapes = ({0: ROWS}, {0: ROWS})
    model = aotpack.compile(module, args, dynamic_shapes=shapes, target="native")
    references = []
    for kind in (nn.Module.float, nn.Module.double):
        reference = FusedReference()
        reference.load_state_dict(module.state_dict())
        references.append(kind(reference).cuda())
    eager, exact = references
    with torch.no_grad():
        for count in (5, 1, 33) * 3:
            given = on_gpu((torch.randn(count, 8), torch.randn(count, 8)))
            check(model(*given), eager(*given), exact(*widened(given)))
        x = torch.randn(5, 8, device="cuda")
        sums = aotpack.compile(Sums(), (x.cpu(),), target="native")
        torch.testing.assert_close(sums(x), x.exp().sum(1) + 1)


@pytest.mark.row("S:H15", "S:H14")
def test_kernels_of_the_users_that_change_their_arguments() -> None:
    model = aotpack.compile(Changing(), (torch.randn(3, 4),), target="native")
    reference = ChangingReference().cuda()
    for _ in range(4):
        x = torch.randn(3, 4, device="cuda")
        given = x.clone()
        wanted = reference(x)
        torch.testing.assert_close(model(given), wanted)
        torch.testing.assert_close(given, x)
    torch.testing.assert_close(torch.from_dlpack(model.state["state"]), reference.state)


@pytest.mark.row("S:H8", "S:H9", "S:H11")
def test_torch_is_called_between_kernels() -> None:
    x = torch.randn(4, 5)
    model = compiled(Mixed(), (x, x), "native", ({0: ROWS}, {0: ROWS}))
    for count in (4, 1, 33) * 3:
        given = on_gpu((torch.randn(count, 5), torch.randn(count, 5)))
        for ours, theirs in zip(model(*given), Mixed()(*given), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.row("S:D5")
@pytest.mark.parametrize("name", [name for name in PADDED if name != "infinite in the gap"])
def test_rows_with_room(name: str) -> None:
    torch.manual_seed(0)
    length, _, body = PADDED[name]
    module = OddRows(body, length).half()
    model = aotpack.compile(module, (rows(3),), dynamic_shapes=BATCH, target="native")
    module, exact = module.cuda(), copy.deepcopy(module).double().cuda()
    with torch.no_grad():
        for count in (3, 1, 9) * 2:
            x = rows(count).cuda()
            check(model(x), module(x), exact(x.double()))
