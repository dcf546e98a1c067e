"""The sizes at which kernels are timed."""

import pytest

from aotpack.runtime.safetensors import read_safetensors
from aotpack.runtime.tuning import tune_sizes
from aotpack.runtime.tuning.tune_sizes import main_sizes, single_sizes
from tests.tune.packages import PackedWeight, opened


def test_sizes_are_the_example_s_the_largest_and_powers_of_two(package: PackedWeight) -> None:
    golden = read_safetensors(package.folder / "golden.safetensors")
    with opened(package) as model:
        assert main_sizes(model, golden) == [{"b": 5}, {"b": 64}]
        sizes = [sizes["b"] for sizes in single_sizes(model, {"b": 5})]
    assert sizes == [1, 2, 4, 8, 16, 32, 64]


def test_what_takes_long_is_not_timed(
    package: PackedWeight, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = read_safetensors(package.folder / "golden.safetensors")
    monkeypatch.setattr(tune_sizes, "_HOST", tune_sizes.Limits(1e9, 2 * 16 * 2 * 40 * 24))
    with opened(package) as model:
        assert main_sizes(model, golden) == [{"b": 5}, {"b": 16}]
        assert [sizes["b"] for sizes in single_sizes(model, {"b": 5})] == [1, 2, 4, 8, 16]
