"""The float64 reference where eager loses a NaN or an infinity on the way."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from aotpack.lower import LOWERINGS
from aotpack.trace import trace

NAN, INF = float("nan"), float("inf")
ROWS = torch.tensor([[NAN, 1, NAN, 2], [INF, NAN, 0, 1], [3, 2, 1, 0], [-INF, -1, NAN, NAN]])


def results(forward, *args):
    """The reference's results."""
    module = type("Model", (nn.Module,), {"forward": lambda self, *given: forward(*given)})()
    traced = trace(module, args, name="m", version="1", whole=frozenset(LOWERINGS))
    outputs = traced.golden.outputs
    arrays = (np.frombuffer(data, str(dtype)).reshape(shape) for _, dtype, shape, data in outputs)
    return [torch.from_numpy(array.copy()) for array in arrays]


def test_a_mean_is_that_of_the_sum():
    x = torch.tensor([[1.0, INF, 2.0], [1.0, 2.0, 3.0], [-INF, 0.0, INF]])

    def forward(x):
        layer = torch.native_layer_norm(x, [3], None, None, 1e-5)
        group = torch.native_group_norm(x[..., None], None, None, 3, 3, 1, 1, 1e-5)
        return [
            *torch.var_mean(x, 1),
            torch.std_mean(x, 1, keepdim=True)[1],
            layer[1],
            group[1],
            torch.var_mean(x)[1],
        ]

    spread, *means, whole = results(forward, x)
    assert spread.isnan().tolist() == [True, False, True] and whole.isnan()
    for mean in means:
        torch.testing.assert_close(mean.flatten(), torch.tensor([INF, 2, NAN]), equal_nan=True)


def test_a_nan_in_a_bag_or_difference_counts():
    members = torch.tensor([[2, 0], [0, 2], [2, 3]])

    def forward(x):
        bags = functional.embedding_bag(members, x, mode="max")
        return bags, torch.cdist(x, x[2:3], INF), functional.pdist(x, INF)

    bags, distances, own = results(forward, ROWS)
    assert torch.equal(bags.isnan(), ROWS[members].isnan().any(1))
    assert distances.flatten().isnan().tolist() == [True, True, False, True]
    assert own.isnan().all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [5, 600])
def test_attention_is_nan_where_a_score_is(causal, queries):
    query, key, value = (torch.randn(2, 2, queries, 8) for _ in range(3))
    query[0, 0, 1, 3], key[1, 1, 3, 0] = NAN, NAN
    wanted = torch.zeros(2, 2, queries, 8, dtype=torch.bool)
    wanted[0, 0, 1], wanted[1, 1, 3 if causal else 0 :] = True, True

    def forward(*given):
        return functional.scaled_dot_product_attention(*given, is_causal=causal)

    (found,) = results(forward, query, key, value)
    assert torch.equal(found.isnan(), wanted)
    clean = forward(query.nan_to_num(), key.nan_to_num(), value)
    torch.testing.assert_close(found[0, 1], clean[0, 1])


def test_keys_that_a_mask_excludes_do_not_count():
    query, key, value = (torch.randn(1, n, 5, 8) for n in (4, 2, 2))
    key[:, :, 2] = NAN
    allowed = torch.ones(5, 5, dtype=torch.bool).index_fill(1, torch.tensor(2), False)
    allowed[4] = False

    def forward(query, key, value, mask):
        return functional.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)

    (found,) = results(forward, query, key, value, allowed)
    torch.testing.assert_close(found, forward(query, key.nan_to_num(), value, allowed))
    added = torch.zeros(5, 5).masked_fill(~allowed, -INF)
    (found,) = results(forward, query, key, value, added)
    assert found.isnan().all()
