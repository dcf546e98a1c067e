"""Attention on target cpu: keys and values in rows, or packed in runs, against eager."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch.export import Dim
from torch.nn.functional import scaled_dot_product_attention as attention

from aotpack import pipeline
from tests.e2e.law import Answers, call_complaints
from tests.render.test_c_templates import INF, NAN, Call, Tensors, floats

pytestmark = pytest.mark.usefixtures("as_shipped")

BF16, F16 = torch.bfloat16, torch.float16
Attend = Callable[..., torch.Tensor]


def complaint_of(model: Callable[..., torch.Tensor], attend: Attend, *args: torch.Tensor) -> str:
    """What the accuracy law says, or nothing."""

    def answers(given: Sequence[torch.Tensor]) -> Answers:
        return [model(*given)], [attend(*given)], [attend(*widened(given))]

    return call_complaints(args, answers)[0] or ""


def widened(args: Sequence[torch.Tensor]) -> Tensors:
    return tuple(arg.double() if arg.is_floating_point() else arg for arg in args)


def factors(
    b: int, h: int, i: int, j: int, d: int, *, heads: int = 0, e: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values; keys of fewer heads, values of another depth."""
    return floats(b, h, i, d), floats(b, heads or h, j, d), floats(b, heads or h, j, e or d)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q, k, v, is_causal=True)


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q, k, v, enable_gqa=True)


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return attention(q, k, v, attn_mask=mask, enable_gqa=True)


def grouped_values(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Keys of each head, values that two share."""
    return attention(q, k, v[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2))


def one_for_all(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q, k.expand(-1, q.shape[1], -1, -1), v.expand(-1, q.shape[1], -1, -1))


def heads_inside(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(*(x.transpose(1, 2) for x in (q, k, v)))


def turned_keys(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q, k.mT, v)


def computed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q * 2, k[:, :, 1:] + k[:, :, :1], v[..., :-1] - 0.5).relu()


def allowed(*shape: int) -> torch.Tensor:
    """A mask whose first row allows nothing."""
    mask = floats(*shape) > 0
    mask[..., 0, :] = False
    return mask


@dataclass(frozen=True)
class Few:
    """A way to attend and what it is called with."""

    name: str
    attend: Attend
    args: Tensors

    def __str__(self) -> str:
        return self.name


CASES = (
    *(
        Few(f"plain-{'x'.join(map(str, sizes))}", attention, factors(*sizes))
        for sizes in (
            *((1, 1, 1, 1, 1), (2, 3, 1, 300, 64), (1, 2, 2, 129, 33), (1, 2, 3, 7, 80)),
            *((1, 2, 5, 128, 12), (1, 1, 16, 257, 24), (1, 3, 9, 31, 130), (7, 9, 1, 3, 4)),
        )
    ),
    Few("values-are-longer", attention, factors(1, 2, 3, 40, 8, e=300)),
    Few("causal", causal, factors(1, 2, 6, 150, 16)),
    Few("causal-few-keys", causal, factors(1, 2, 9, 4, 16)),
    *(
        Few(f"heads-share-keys-{i}", grouped, factors(2, 12, i, 133, 36, heads=4))
        for i in (1, 3, 16)
    ),
    Few("heads-share-values", grouped_values, (*factors(1, 6, 2, 20, 8)[:2], floats(1, 3, 20, 8))),
    Few("all-heads-share-keys", one_for_all, factors(2, 6, 1, 21, 16, heads=1)),
    Few("bias", attention, (*factors(2, 2, 3, 140, 20), floats(2, 1, 3, 140))),
    Few("mask", attention, (*factors(2, 2, 3, 140, 20), allowed(2, 1, 3, 140))),
    Few("mask-of-heads", masked, (*factors(1, 6, 2, 140, 20, heads=2), allowed(1, 6, 2, 140))),
    Few("heads-inside", heads_inside, tuple(floats(2, n, 3, 24) for n in (2, 70, 70))),
    Few("turned-keys", turned_keys, (floats(1, 2, 2, 8), floats(1, 2, 8, 30), floats(1, 2, 30, 8))),
    Few("computed", computed, (floats(1, 2, 2, 8), floats(1, 2, 131, 8), floats(1, 2, 130, 20))),
)


@pytest.fixture(scope="module")
def complaints() -> list[str | None]:
    """What the accuracy law says about each case."""

    def every(*args: torch.Tensor) -> Tensors:
        left = list(args)
        return tuple(case.attend(*(left.pop(0) for _ in case.args)) for case in CASES)

    args = tuple(arg for case in CASES for arg in case.args)
    with pipeline.compile(Call(every), args, target="cpu") as model:
        return call_complaints(args, lambda x: (model(*x), every(*x), every(*widened(x))))


@pytest.mark.parametrize("number", range(len(CASES)), ids=map(str, CASES))
def test_obeys_the_accuracy_law(number: int, complaints: list[str | None]) -> None:
    assert complaints[number] is None, complaints[number]


@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_short_floats(dtype: torch.dtype) -> None:
    """bfloat16 is read where it lies, float16 is copied."""
    args = tuple(x.to(dtype) for x in factors(2, 6, 3, 150, 33, heads=3))
    with pipeline.compile(Call(grouped), args, target="cpu") as model:
        assert not complaint_of(model, grouped, *args)


def test_a_call_decides_how_many_queries_and_keys_there_are() -> None:
    """Rows with nothing allowed give zeros; what is not finite goes where eager has it."""
    queries, keys = Dim("i", min=1, max=40), Dim("j", min=1, max=300)
    shapes = {"args": ({2: queries}, {2: keys}, {2: keys}, {2: queries, 3: keys})}
    example = (*factors(2, 4, 5, 64, 20), floats(2, 1, 5, 64))
    with pipeline.compile(Call(attention), example, dynamic_shapes=shapes, target="cpu") as model:
        for i, j in ((1, 1), (1, 300), (2, 127), (4, 128), (16, 129), (17, 130), (40, 3)):
            q, k, v = factors(2, 4, i, j, 20)
            bias = floats(2, 1, i, j).where(floats(2, 1, i, j) > -1, -INF)
            bias[0, 0, 0] = -INF
            k[1, 1, j // 2, 3], v[1, 2, 0, 5] = NAN, INF
            assert not complaint_of(model, attention, q, k, v, bias), f"{i} x {j}"


class Cache(torch.nn.Module):
    """A step of decoding: a key and a value are written, those up to it are attended to."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, longest, 24))
        self.register_buffer("values", torch.zeros(1, 2, longest, 24))

    def forward(self, q: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(2, at, new)
        self.values.index_copy_(2, at, -new)
        seen = torch.arange(self.keys.shape[2])[None] <= at
        return attention(q, self.keys, self.values, attn_mask=seen, enable_gqa=True)


def test_a_cache_is_read_where_it_lies() -> None:
    eager, steps = Cache(150), [(floats(1, 4, 1, 24), floats(1, 2, 1, 24)) for _ in range(4)]
    example = (*steps[0], torch.tensor([0]))
    with pipeline.compile(Cache(150), example, target="cpu") as model:
        for at, (q, new) in zip((0, 1, 128, 149), steps, strict=True):
            position = torch.tensor([at])
            torch.testing.assert_close(model(q, new, position), eager(q, new, position))


HALVES = torch.arange(8) // 2
MADE = {
    "repeated": lambda x: x[..., :4].repeat(1, 1, 2),
    "repeated_each": lambda x: x[..., :4].repeat_interleave(2, -1),
    "interleaved": lambda x: x.unflatten(-1, (2, 4)).mT.flatten(-2),
    "gathered": lambda x: x[..., HALVES],
    "padded": lambda x: torch.nn.functional.pad(x[..., :6], (1, 1)),
    "turned": lambda x: torch.cat([-x[..., 4:], x[..., :4]], -1),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize(("queries", "keys"), [(1, 5), (70, 33)])
def test_keys_and_values_that_divide_their_depth(
    made: Callable[..., torch.Tensor], queries: int, keys: int
) -> None:
    def attend(q: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return attention(q, made(x), made(x.flip(1)))

    args = floats(2, queries, 8), floats(2, keys, 8)
    with pipeline.compile(Call(attend), args, target="cpu") as model:
        assert not complaint_of(model, attend, *args)
