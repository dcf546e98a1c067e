"""Flash attention in Triton: what edges, masks, biases and types change of a step over keys."""

import re
import textwrap

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.render.models import kernel_text, rendered

BF16 = torch.bfloat16


class Attended(nn.Module):
    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.options = options

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *more: torch.Tensor
    ) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, *more, **self.options)


def text_of(
    keys: int,
    *more: torch.Tensor,
    depth: int = 64,
    dtype: torch.dtype = BF16,
    **options: bool,
) -> str:
    """Two heads of 128 queries."""
    q, k = (torch.zeros(1, 2, count, depth, dtype=dtype) for count in (128, keys))
    return kernel_text(rendered(Attended(**options), q, k, k, *more))


def steps(text: str) -> int:
    """Loops over blocks of keys."""
    return len(re.findall(r"for j_start in ", text))


def test_blocks_that_every_query_sees_whole_are_not_masked() -> None:
    text = text_of(128)
    assert steps(text) == 1 and "j_mask" not in text and "tl.where(j" not in text


@pytest.mark.parametrize(("keys", "options"), [(100, {}), (128, {"is_causal": True})])
def test_edges_have_a_loop_of_their_own(keys: int, options: dict[str, bool]) -> None:
    text = text_of(keys, **options)
    assert steps(text) == 2
    clear, edge = text.split("for j_start in ")[1:]
    assert "logits = tl.where(" not in clear
    hidden = re.findall(r'logits = tl.where\((.*), logits, float\("-inf"\)\)', edge)
    assert hidden == (["j <= i"] if options else ["j_mask"])


def test_logits_with_a_bias_are_natural_and_others_powers_of_two() -> None:
    bias = text_of(128, torch.zeros(1, 2, 128, 128, dtype=BF16))
    mask = text_of(128, torch.ones(128, 128, dtype=torch.bool))
    for text in (text_of(128), mask):
        assert "tl.exp2(logits * 0.18033688011112042 - base)" in text
    assert "tl.dot(t1, t2) * 0.125" in bias and "0.18033688011112042" not in bias
    assert "tl.exp2((logits - base) * 1.4426950408889634)" in bias
    assert "logits += t4" in bias and "logits +=" not in mask
    assert 'logits = tl.where(t4, logits, float("-inf"))' in mask


class Cached(nn.Module):
    """Queries behind a cache that is filled up to ``start``."""

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: torch.Tensor
    ) -> torch.Tensor:
        mask = torch.arange(k.shape[2]) <= start + torch.arange(q.shape[2])[:, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def test_a_mask_that_bounds_positions_is_asked_at_the_end_alone() -> None:
    q, k = (torch.zeros(1, 2, count, 64, dtype=BF16) for count in (128, 512))
    text = kernel_text(rendered(Cached(), q, k, k, torch.tensor(5)))
    before, clear, edge = text.split("for j_start in ")
    assert "j_end = tl.minimum(j_end, " in before and "j_clear = tl.minimum(j_clear, " in before
    assert "logits = tl.where(" not in clear and "logits = tl.where(" in edge


def test_a_head_that_is_no_power_of_two_is_padded() -> None:
    text = text_of(128, depth=40)
    assert "tl.arange(0, 64)" in text and "d_row < 40" in text
    assert "d_row <" not in text_of(128)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [(torch.float32, ', input_precision="bf16x6")'), (BF16, "probability.to(tl.bfloat16)")],
)
def test_probabilities_are_multiplied_in_the_type_of_the_values(
    dtype: torch.dtype, words: str
) -> None:
    (line,) = [line for line in text_of(128, dtype=dtype).splitlines() if "acc = tl.dot" in line]
    assert words in line and ("input_precision" in line) is (dtype is torch.float32)


def test_keys_and_values_come_through_descriptors_where_they_are_rectangles() -> None:
    text = text_of(2048, depth=128)
    assert "key = key_block.load([j_start, 0]).T" in text
    assert "value = value_block.load([j_start, 0])" in text
    assert "_block" not in text_of(512, depth=128)


class Decoded(nn.Module):
    """One query of four heads, which have the same keys."""

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, k, enable_gqa=True)


class Scalars:
    """What lines about shares of keys need of triton.language."""

    int32 = torch.int32

    def cdiv(self, a: int, b: int) -> int:
        return -(-a // b)

    def minimum(self, a: torch.Tensor | int, b: torch.Tensor | int) -> torch.Tensor | int:
        return min(a, b)


def test_shares_of_keys_are_even_and_together_all() -> None:
    q, k = (torch.zeros(1, *size, 64, dtype=BF16) for size in ((4, 1), (1, 20_001)))
    text = kernel_text(rendered(Decoded(), q, k))
    (lines,) = re.findall(r"^    j_first = 0\n.*?(?=    j_clear)", text, re.MULTILINE | re.DOTALL)
    splits = int(re.findall(r"splits = (\d+)", text)[0])
    steps, end = list[int](), 0
    for split in map(torch.tensor, range(splits)):
        names = {"tl": Scalars(), "split": split, "splits": splits}
        exec(textwrap.dedent(lines), names)
        first, last = int(names["j_first"]), int(names["j_end"])
        assert first == end
        steps.append(-(-(last - first) // 64))
        end = last
    assert end == 20_001 and set(steps) == {1, 2} and sum(steps) == 313
