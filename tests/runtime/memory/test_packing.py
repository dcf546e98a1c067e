import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotpack.runtime.memory.packing import ALIGNMENT, live_bytes, pack
from aotpack.runtime.plan import Buffer

lifetimes = st.tuples(st.integers(0, 5000), st.integers(0, 20), st.integers(0, 5))
buffer_lists = st.lists(
    lifetimes.map(lambda one: Buffer("b", one[0], one[1], one[1] + one[2])), max_size=25
)


@pytest.mark.row("S:O4", "S:O5", "S:inv40")
@settings(max_examples=150, deadline=None)
@given(buffer_lists)
def test_buffers_alive_together_never_overlap(buffers: list[Buffer]) -> None:
    offsets, total = pack(buffers)
    assert len(offsets) == len(buffers) and live_bytes(buffers) <= total
    for i, (a, start) in enumerate(zip(buffers, offsets, strict=True)):
        assert start % ALIGNMENT == 0 and start + a.size <= total
        for b, other in zip(buffers[:i], offsets, strict=False):
            if a.first <= b.last and b.first <= a.last and a.size and b.size:
                assert start + a.size <= other or other + b.size <= start


@pytest.mark.row("S:O4", "S:O5")
def test_a_transformer_layer_needs_no_more_than_what_is_alive() -> None:
    sizes = [("norm", 1, 0, 1), ("qkv", 3, 1, 2), ("heads", 1, 2, 3), ("sum", 1, 3, 6)]
    sizes += [("norm2", 1, 4, 5), ("wide", 4, 5, 6), ("out", 1, 6, 7)]
    layers = [
        Buffer(f"{name}{layer}", size * 98304, first + 7 * layer, last + 7 * layer)
        for layer in range(12)
        for name, size, first, last in sizes
    ]
    assert pack(layers)[1] <= 1.05 * live_bytes(layers)


def test_nothing_needs_nothing() -> None:
    assert pack([]) == ((), 0)
    assert pack([Buffer("empty", 0, 0, 3)]) == ((0,), 0)
