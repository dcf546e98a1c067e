"""The wrapper's text, and that it is a program in the sizes."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.runtime.plan import Buffer, Counters, Launch, Plan, first
from aotpack.stages import Rendered
from tests.schedule.memory.test_lifetimes import chain

from .models import Normed, Projection, Softmax, rendered, rendered_program

ROWS = {"input": {0: Dim("b", min=1, max=64)}}


def plan_of(product: Rendered) -> Callable[..., Plan]:
    """The wrapper's function, run with the runtime's types."""
    text = re.sub("from ._runtime import .*\n", "", product.wrapper)
    types = (Buffer, Counters, Launch, Plan, first)
    scope = {one.__name__: one for one in types}
    exec(compile(text, "wrapper.py", "exec"), scope)
    return scope["plan"]  # type: ignore[return-value]


def two_layers() -> Rendered:
    model = nn.Sequential(Projection(16, 32), Projection(32, 8), Softmax())
    return rendered(model, torch.zeros(3, 16), dynamic_shapes=ROWS)


@pytest.mark.row("S:P1", "S:E4", "C:H4", "C:H15", "C:inv26", "C:H14", "C:I3")
def test_plan_names_kernels_tensors_and_sizes() -> None:
    product = two_layers()
    known = {kernel.name: kernel for kernel in product.kernels}
    given = {*(spec.name for spec in product.signature.inputs), *(w.name for w in product.weights)}
    for b in (1, 3, 64):
        plan = plan_of(product)(90, b)
        assert plan.outputs == ((b, 8),)
        ready = set(given)
        for launch in plan.launches:
            kernel = known[launch.kernel]
            assert len(launch.args) == len(kernel.args)
            for passed, arg in zip(launch.args, kernel.args, strict=True):
                assert isinstance(passed, str) is arg.is_pointer
                assert arg.is_written or not arg.is_pointer or passed in ready
            ready.update(launch.args)
            assert all(count >= 1 for count in launch.grid)


@pytest.mark.row("S:D10", "S:O2", "S:O3", "S:O6")
def test_buffers_are_the_intermediates_in_bytes() -> None:
    plan = plan_of(two_layers())(90, 5)
    names = {arg for launch in plan.launches for arg in launch.args if isinstance(arg, str)}
    assert {buffer.name for buffer in plan.buffers} <= names
    assert plan.buffers[0].size == 5 * 32 * 4
    assert all(0 <= buffer.first <= buffer.last < len(plan.launches) for buffer in plan.buffers)


@pytest.mark.row("S:O2", "S:O3", "S:O6")
def test_memory_that_is_taken_over_lives_until_the_last_read() -> None:
    plan = plan_of(rendered_program(chain()))(90, 5)
    (buffer,) = plan.buffers
    users = [n for n, launch in enumerate(plan.launches) if buffer.name in launch.args]
    assert (buffer.first, buffer.last) == (users[0], users[-1]) == (0, 2)


@pytest.mark.row("S:E2")
def test_weights_and_inputs_go_by_their_own_names() -> None:
    x = torch.zeros(4, 64)
    plan = plan_of(rendered(Normed(64), x, x))(90)
    (launch,) = plan.launches
    assert {"x", "y", "norm.weight", "norm.bias", "output0"} == set(launch.args)


@pytest.mark.row("S:inv39")
def test_peak_holds_what_is_alive_at_the_largest_sizes() -> None:
    product = two_layers()
    sizes = [sum(-(-b.size // 256) * 256 for b in plan_of(product)(90, n).buffers) for n in (1, 64)]
    assert sizes[0] < product.peak_bytes <= sizes[1]


def test_fixed_sizes_take_no_parameters() -> None:
    plan = plan_of(rendered(Softmax(), torch.zeros(3, 8)))
    assert plan(90).outputs == ((3, 8),)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        plan(90, 3)


def test_the_title_names_the_model() -> None:
    _, title, *_ = two_layers().wrapper.splitlines()
    assert title == '"""test 1."""'
