"""Golden data: inputs, a float64 reference, and how far eager is from it."""

import pytest
import torch
from torch import nn

from aotpack.errors import TraceError
from aotpack.ir.dtypes import DType
from aotpack.lower import LOWERINGS
from aotpack.trace import trace

X = torch.arange(-4.0, 4.0).view(2, 4)


def reference(traced, index=0):
    _, dtype, shape, data = traced.golden.outputs[index]
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, str(dtype))).view(shape)


def test_inputs_and_outputs(trace_function):
    traced = trace_function(lambda self, x, n: (x * n, x.argmax(-1)), X, 3)
    assert traced.golden.inputs == (("x", DType.FLOAT32, (2, 4), X.numpy().tobytes()),)
    assert [o[:3] for o in traced.golden.outputs] == [
        ("output0", DType.FLOAT32, (2, 4)),
        ("output1", DType.INT64, (2,)),
    ]
    assert traced.golden.eager_errors == (0.0, 0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_reference_is_float64(trace_function, dtype):
    torch.manual_seed(0)
    layer = nn.Linear(4, 5).to(dtype)

    def forward(self, x):
        return torch.softmax(self.a(x).float(), -1).to(dtype)

    traced = trace_function(forward, X.to(dtype), modules={"a": layer})
    exact = torch.softmax(layer.double()(X.to(dtype).double()), -1)
    assert torch.equal(reference(traced), exact.to(dtype).float())
    (error,) = traced.golden.eager_errors
    assert 0 < error < 4 * torch.finfo(dtype).eps


@pytest.mark.parametrize("descending", [False, True])
def test_equal_elements_keep_their_order_in_argsort(trace_function, descending):
    x = torch.randint(0, 3, (20, 40), generator=torch.Generator().manual_seed(0)).float()
    traced = trace_function(lambda self, x: x.argsort(descending=descending), x)
    assert torch.equal(reference(traced), x.argsort(descending=descending, stable=True))


def test_integers_become_float64(trace_function):
    traced = trace_function(lambda self, x: torch.arange(4) / 3 + x, X)
    assert torch.equal(reference(traced), (torch.arange(4).double() / 3 + X.double()).float())


def test_of_equal_elements_the_first_is_taken(trace_function):
    x = torch.randint(0, 4, (3, 200), generator=torch.Generator().manual_seed(0)).float()

    def forward(self, x):
        first = x.topk(50)
        orders = *x.sort(-1), *x.sort(0, descending=True), *first, *x.topk(2, 0, largest=False)
        return *orders, first.indices.view(-1), x.new_zeros(0).long()

    traced = trace_function(forward, x)
    orders = ((-1, False, 200), (0, True, 3), (-1, True, 50), (0, False, 2))
    for n, (dim, descending, count) in enumerate(orders):
        wanted = torch.sort(x, dim=dim, descending=descending, stable=True)
        for part in (0, 1):
            assert torch.equal(reference(traced, 2 * n + part), wanted[part].narrow(dim, 0, count))
    assert torch.equal(reference(traced, 8), reference(traced, 5).view(-1))
    assert traced.golden.eager_errors[9] == 0


def test_of_equal_elements_in_the_middle_a_stable_order_decides(trace_function):
    """Torch's own kthvalue and mode take any; a NaN ends a row of numbers."""
    x = torch.randint(0, 4, (5, 60), generator=torch.Generator().manual_seed(1)).float()
    x[0, :3] = float("nan")

    def forward(self, x):
        numbers = x.nan_to_num(1)
        return [
            *x.kthvalue(20, -1),
            *x.nanmedian(-1),
            *x.median(-1, True),
            *x.int().mode(-1),
            *torch.sort(numbers, stable=False),
        ]

    traced = trace_function(forward, x)
    order = torch.sort(x, dim=-1, stable=True).indices
    assert torch.equal(reference(traced, 1), order[:, 19])
    assert torch.equal(reference(traced, 3), order[range(5), [28, 29, 29, 29, 29]])
    assert torch.equal(reference(traced, 5), order[range(5), [57, 29, 29, 29, 29]].view(5, 1))
    for n, row in enumerate(x.int()):
        assert reference(traced, 7)[n] == (row == reference(traced, 6)[n]).nonzero().max()
    assert torch.equal(reference(traced, 9), torch.sort(x.nan_to_num(1), stable=True).indices)


def test_the_first_of_a_number_is_itself(trace_function):
    traced = trace_function(lambda self, x: (*x.sum().topk(1), *x.sum().sort()), X)
    assert [reference(traced, n).item() for n in range(4)] == [X.sum().item(), 0] * 2


def test_of_integers_it_is_counted_how_many_differ(trace_function):
    x = torch.linspace(-1, 1, 4000).view(2, -1)

    def forward(self, x):
        return torch.sort((x * 1e4).sin() / 3, stable=True).indices, x > 0

    traced = trace_function(forward, x)
    exact, ours = reference(traced), forward(None, x)[0]
    assert traced.golden.eager_errors == (float((exact != ours).sum()), 0.0)
    assert traced.golden.eager_errors[0] > 0


def test_bitcast_keeps_its_type(trace_function):
    traced = trace_function(lambda self, x: x.view(torch.int32), X)
    assert torch.equal(reference(traced), X.view(torch.int32))


def test_infinities_agree(trace_function):
    traced = trace_function(lambda self, x: torch.where(x > 0, x, float("-inf")), X)
    assert traced.golden.eager_errors == (0.0,)


class Picky(nn.Module):
    def forward(self, x):
        if not torch.compiler.is_compiling():
            raise ValueError("no eager run")
        return x + 1


def test_operators_without_float64_run_in_their_own_types(trace_function):
    scale, zero = torch.rand(4) + 0.1, torch.zeros(4, dtype=torch.int32)

    def forward(self, x):
        return torch.fake_quantize_per_channel_affine(x * 3, scale, zero, 1, -8, 7)

    traced = trace_function(forward, X)
    assert torch.equal(reference(traced), forward(None, X))


def test_refuses_an_operator_that_fails(trace_function):
    table = torch.randn(3, 2)
    ids = torch.tensor([1, 5])
    with pytest.raises(TraceError, match=r"running m eagerly .*IndexError.*\n  at \w+.py:"):
        trace_function(lambda self, x: nn.functional.embedding(x, table), ids)


def test_refuses_a_failing_run(trace_function):
    with pytest.raises(
        TraceError,
        match=r"running m eagerly .*ValueError: no eager run\n  at test_record.py:\d+: raise",
    ):
        trace_function(lambda self, x: self.a(x), X, modules={"a": Picky()})


class Normal(nn.Module):
    """torch foresees the strides of a transposed input, and BatchNorm1d answers contiguous."""

    def __init__(self, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.norm, self.dims = nn.BatchNorm1d(5), dims

    def forward(self, x):
        return self.norm(x.permute(self.dims)).permute(self.dims).reshape(-1, 5) * 2


@pytest.mark.parametrize(
    ("dims", "shape", "sizes"),
    [
        ((0, 2, 1), (4, 3, 5), None),
        ((0, 2, 1), (4, 3, 5), {0: torch.export.Dim("n", max=64)}),
        ((2, 1, 0), (3, 5, 4), None),
    ],
)
def test_no_run_depends_on_strides(dims, shape, sizes):
    kept = {"whole": frozenset(LOWERINGS), "dynamic_shapes": {"x": sizes}}
    traced = trace(Normal(dims), (torch.randn(shape),), name="m", version="1", **kept)
    assert traced.golden.eager_errors[0] < 1e-5


def test_weights_and_inputs_have_any_strides(trace_function):
    layer = nn.Linear(4, 6)
    layer.weight = nn.Parameter(torch.randn(4, 6).t())
    x = torch.randn(3, 1, 4).expand(3, 2, 4)
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)

    def forward(self, x, image):
        return self.a(x).flatten(), nn.functional.avg_pool2d(image, 2).permute(0, 2, 3, 1).flatten()

    traced = trace_function(forward, x, image, modules={"a": layer})
    assert max(traced.golden.eager_errors) < 1e-6


@pytest.mark.parametrize("operator", [torch.median, torch.nanmedian, torch.max, torch.min])
def test_a_choice_of_the_whole_tensor_has_no_positions(trace_function, operator):
    traced = trace_function(lambda self, x: operator(x) + 1, X)
    assert reference(traced).item() == operator(X.double()).item() + 1
