"""Functions of which torch.export takes the example's sizes: right for all sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError
from tests.e2e.law import Answers, Tolerance, call_complaints


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


SEQUENCES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "max_pool1d": lambda x: F.max_pool1d(x, 3, 2, 1),
    "max_pool1d, dilated": lambda x: torch.max_pool1d(x, (2,), dilation=2, ceil_mode=True),
    "max_pool1d of one sequence": lambda x: F.max_pool1d(x[0], kernel_size=2),
    "MaxPool1d": nn.MaxPool1d(3),
    "take_along_dim": lambda x: torch.take_along_dim(x, x.argsort(-1), -1),
    "take_along_dim, broadcast": lambda x: x.take_along_dim(x[:1, :1].argsort(-1), dim=2),
    "take_along_dim, turning": lambda x: torch.take_along_dim(x, torch.tensor([[[-1, 7, -9]]]), 2),
    "take_along_dim of all": lambda x: torch.take_along_dim(x, x.argmax(1)),
}


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("axis", [0, 2])
def test_sequences_of_any_length(name: str, axis: int) -> None:
    model, given = Model(SEQUENCES[name]), floats(4, 3, 8)
    shapes = ({axis: Dim("n", min=3, max=40)},)
    package = aotpack.compile(model, (given,), dynamic_shapes=shapes, target="interpreter")
    for size in (3, 4, 11, 40):
        x = floats(*(size if k == axis else n for k, n in enumerate(given.shape)))
        assert torch.equal(package(x), model(x))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (SEQUENCES["MaxPool1d"], "n is dimension 2"),
        (lambda x: x.take_along_dim(torch.zeros(1, 1, 8).long(), 1), "n is 8"),
    ],
)
def test_sequences_of_other_lengths_are_refused(function: Any, words: str) -> None:
    shapes = ({2: Dim("n", min=2, max=40)},)
    with pytest.raises(TraceError, match=words):
        aotpack.compile(
            Model(function), (floats(4, 3, 8),), dynamic_shapes=shapes, target="interpreter"
        )


THETA = torch.randn(2, 2, 3)
OF_TWO: dict[str, Callable[[torch.Tensor], Any]] = {
    "kron": lambda x: torch.kron(x, x),
    "kron, of other ranks": lambda x: torch.kron(x[0], x.unsqueeze(1)),
    "vander": lambda x: (torch.vander(x[0]), torch.vander(x[:, 0], 3, increasing=True)),
    "vander of integers": lambda x: torch.vander((x[0] * 3).int()),
    "linalg.vander": lambda x: (torch.linalg.vander(x), torch.linalg.vander(x, N=4)),
    "gradient": lambda x: torch.gradient(x),
    "gradient, spaced": lambda x: torch.gradient(x, spacing=[0.5, 2.0], edge_order=2),
    "gradient, one": lambda x: torch.gradient(x, spacing=0.5, dim=-1)[0],
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x.mT, x, x.mT]),
    "multi_dot of vectors": lambda x: torch.linalg.multi_dot([x[:, 0], x, x.mT, x[:, 1]]),
    "chain_matmul": lambda x: torch.chain_matmul(x, x.mT, x),
    "affine_grid": lambda x: F.affine_grid(THETA, [2, 1, *x.shape], align_corners=False),
    "affine_grid, corners": lambda x: F.affine_grid(THETA, [2, 1, *x.shape], align_corners=True),
    "chunk": lambda x: (*x.chunk(2, 1), *torch.chunk(x, 2)),
    "chunk of a multiple": lambda x: (
        *torch.cat([x, x, x], 1).chunk(3, -1),
        *x.repeat(4, 1).chunk(4),
    ),
    "tensor_split": lambda x: (*x.tensor_split(3, 1), *torch.tensor_split(x, 2)),
    "fftfreq": lambda x: (torch.fft.fftfreq(x.shape[1]), torch.fft.fftfreq(x.shape[0], 0.3)),
    "rfftfreq": lambda x: (
        torch.fft.rfftfreq(x.shape[1], d=2, dtype=torch.float64),
        torch.fft.rfftfreq(x.shape[0]),
    ),
}
SHAPES = ((3, 3), (3, 4), (4, 3), (5, 7), (8, 6), (11, 12), (3, 40), (40, 3))


def listed(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else [*result]


@pytest.mark.parametrize("name", OF_TWO)
def test_two_sizes_of_any_length(name: str) -> None:
    model = Model(OF_TWO[name])
    loose = Tolerance(factor=8 if "vander" in name else 1)  # eager multiplies in double
    shapes = ({0: Dim("m", min=3, max=40), 1: Dim("n", min=3, max=40)},)
    how: Any = {"dynamic_shapes": shapes, "target": "interpreter"}
    with aotpack.compile(model, (floats(5, 8),), **how) as package:

        def answers(given: Any) -> Answers:
            (x,) = given
            exact = listed(model(x.double())) if "vander of" not in name else listed(model(x))
            return listed(package(x)), listed(model(x)), exact

        for shape in SHAPES:
            x = floats(*shape)
            found = call_complaints((x,), answers, loose)
            assert not any(found), (shape, found)
            pairs = zip(listed(package(x)), listed(model(x)), strict=True)
            assert all(ours.dtype == eager.dtype for ours, eager in pairs)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x.chunk(3, 1)[0], "n is dimension 1"),
        (lambda x: x.chunk(2, 1), "where n_?=1"),
        (lambda x: torch.gradient(x, dim=1)[0], "n=1|n >= 2"),
        (lambda x: torch.gradient(x, spacing=(torch.arange(8.0),), dim=1)[0], "n is 8"),
    ],
)
def test_sizes_for_which_torch_differs_are_refused(function: Any, words: str) -> None:
    shapes = ({1: Dim("n", min=1, max=40)},)
    with pytest.raises(TraceError, match=words):
        aotpack.compile(
            Model(function), (floats(5, 8),), dynamic_shapes=shapes, target="interpreter"
        )


def written(function: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    found = torch.empty(x.shape[0], dtype=torch.float64)
    function(0, 2, steps=x.shape[0], out=found)
    return found * 2


FROM_ONE: dict[str, Callable[[torch.Tensor], Any]] = {
    "linspace": lambda x: (torch.linspace(-1, 1, x.shape[0]), torch.linspace(2, 0, x.shape[0] - 1)),
    "linspace, written": lambda x: written(torch.linspace, x),
    "logspace, written": lambda x: written(torch.logspace, x),
    "linspace to a size": lambda x: torch.linspace(0, x.shape[0] - 1, steps=2 * x.shape[0]),
    "linspace of integers": lambda x: torch.linspace(-3.7, 9.2, x.shape[0], dtype=torch.int64),
    "linspace of tensors": lambda x: torch.linspace(x[0], 3, x.shape[0], dtype=torch.float64),
    "logspace": lambda x: torch.logspace(0, 1, x.shape[0]),
    "logspace of integers": lambda x: torch.logspace(0.7, 5.5, x.shape[0], 2, dtype=torch.int32),
    "hann": lambda x: (torch.hann_window(x.shape[0]), torch.hann_window(x.shape[0], False)),
    "hamming": lambda x: (
        torch.hamming_window(x.shape[0], True, alpha=0.3),
        torch.hamming_window(x.shape[0], False, 0.3, 0.6),
    ),
    "blackman": lambda x: torch.blackman_window(x.shape[0], periodic=False),
    "bartlett": lambda x: torch.bartlett_window(x.shape[0], dtype=torch.float64),
    "kaiser": lambda x: torch.kaiser_window(x.shape[0], beta=3.0, periodic=False),
    "split": lambda x: torch.cat([x, x, x]).split(x.shape[0]),
    "split with a rest": lambda x: torch.cat([x, x, x[:1]]).split(x.shape[0], dim=-1),
    "combinations": torch.combinations,
    "combinations of one": lambda x: torch.combinations(x, 1),
    "combinations with replacement": lambda x: torch.combinations(x, with_replacement=True),
    "combinations of few": lambda x: torch.combinations(torch.arange(5), 3),
    "complex mean": lambda x: torch.complex(x, 2 * x).mean(),
    "complex mean of no dimension": lambda x: torch.complex(x, 2 * x).mean(dim=[]),
    "complex mean of rows": lambda x: (
        torch.complex(x, x * x).expand(3, -1).mean(axis=1, keepdims=True),
        x.mean(0, dtype=torch.complex128),
    ),
}


@pytest.mark.parametrize("name", FROM_ONE)
def test_lengths_from_one(name: str) -> None:
    model, shapes = Model(FROM_ONE[name]), ({0: Dim("n", min=1, max=40)},)
    with aotpack.compile(
        model, (floats(6),), dynamic_shapes=shapes, target="interpreter"
    ) as package:
        for size in (1, 2, 3, 7, 40):
            x = floats(size)
            for ours, eager in zip(listed(package(x)), listed(model(x)), strict=True):
                torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: torch.linspace(0, 1j, x.shape[0]), "complex numbers in a dynamic number of st"),
        (lambda x: torch.logspace(0, 1j, x.shape[0]), "torch.complex"),
        (lambda x: torch.combinations(x, 3), "takes 3 of a dynamic number of elements, and 1"),
        (lambda x: torch.arange(24.0).split(x.shape[0])[0], "n is dimension 0"),
    ],
)
def test_lengths_for_which_no_formula_is_written_are_refused(function: Any, words: str) -> None:
    shapes = ({0: Dim("n", min=1, max=40)},)
    with pytest.raises(TraceError, match=words):
        aotpack.compile(Model(function), (floats(6),), dynamic_shapes=shapes, target="interpreter")


class Both(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.cat([x, y]).split(x.shape[0])


def test_parts_of_two_arguments_of_one_length() -> None:
    shapes = ({0: Dim("n", max=40)}, {0: Dim("n", max=40)})
    given = floats(5), floats(5)
    package = aotpack.compile(Both(), given, dynamic_shapes=shapes, target="interpreter")
    for size in (1, 2, 40):
        x, y = floats(size), floats(size)
        assert [*map(torch.equal, package(x, y), (x, y))] == [True, True]


def test_parts_of_two_arguments_of_two_lengths_are_refused() -> None:
    shapes = ({0: Dim("m", max=40)}, {0: Dim("n", max=40)})
    with pytest.raises(TraceError, match="n = m|m = n|n is m|m is n"):
        aotpack.compile(Both(), (floats(5), floats(5)), dynamic_shapes=shapes, target="interpreter")


POOLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "average": lambda x: F.avg_pool1d(x, 2, 3, 1, ceil_mode=True),
    "average of elements": lambda x: F.avg_pool1d(x, 3, 5, 1, True, count_include_pad=False),
    "average of a row": lambda x: F.avg_pool2d(x, (1, 3), (4, 4), (0, 1), ceil_mode=True),
    "average of a plane": lambda x: F.avg_pool3d(x[None], 1, 2, ceil_mode=True),
    "largest": lambda x: F.max_pool1d(x, 2, 3, ceil_mode=True),
    "largest, with places": lambda x: F.max_pool2d(x, 2, 3, 1, 1, True, return_indices=True),
    "largest, dilated": lambda x: F.max_pool2d(x, 2, 4, 1, dilation=2, ceil_mode=True),
    "largest of a plane": lambda x: F.max_pool3d(x[None], 1, 3, ceil_mode=True),
    "norm": lambda x: F.lp_pool1d(x, 2, 1, 2, ceil_mode=True),
}


@pytest.mark.parametrize("name", POOLS)
def test_windows_that_begin_behind_the_end_are_left_out(name: str) -> None:
    model, shapes = Model(POOLS[name]), ({2: Dim("n", min=3, max=40)},)
    with aotpack.compile(
        model, (floats(2, 4, 9),), dynamic_shapes=shapes, target="interpreter"
    ) as package:
        for size in (*range(3, 12), 40):
            x = floats(2, 4, size)
            for ours, eager in zip(listed(package(x)), listed(model(x)), strict=True):
                torch.testing.assert_close(ours, eager)


def test_windows_longer_than_the_elements_are_refused() -> None:
    shapes = ({2: Dim("n", min=3, max=40)},)
    with pytest.raises(TraceError, match="n is dimension 2|n >= "):
        aotpack.compile(
            Model(lambda x: F.avg_pool1d(x, 5, 6)),
            (floats(2, 4, 9),),
            dynamic_shapes=shapes,
            target="interpreter",
        )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("factor", [0.5, (0.3, 1.5)])
def test_images_whose_corners_are_kept(mode: str, factor: Any) -> None:
    model = Model(lambda x: F.interpolate(x, None, factor, mode, align_corners=True))
    given, least = floats(1, 2, 9, 8), 4 if isinstance(factor, tuple) else 2
    shapes = ({axis: Dim(name, min=least, max=40) for axis, name in ((2, "m"), (3, "n"))},)
    with aotpack.compile(model, (given,), dynamic_shapes=shapes, target="interpreter") as package:
        for height, width in ((least, least), (least, 7), (9, least), (14, 15)):
            x = floats(1, 2, height, width)
            torch.testing.assert_close(package(x), model(x), rtol=1e-4, atol=1e-5)


def test_images_that_come_to_nothing_are_refused() -> None:
    model = Model(lambda x: F.interpolate(x, None, 0.25, "bilinear", align_corners=True))
    shapes = ({3: Dim("n", min=2, max=40)},)
    with pytest.raises(TraceError, match=r"needs \(n_//4\) >= 1, .* Give the dimension min=4"):
        aotpack.compile(model, (floats(1, 2, 9, 8),), dynamic_shapes=shapes, target="interpreter")


def _steps(a: Any, b: Any) -> Any:
    return a[0] * b[0], a[1] * b[0] + b[1]


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_scans_beside_a_dynamic_size(length: int, is_reversed: bool) -> None:
    def scanned(x: torch.Tensor) -> Any:
        return associative_scan(_steps, (x.sigmoid(), x), 0, is_reversed, "generic")

    model, shapes = Model(scanned), ({1: Dim("n", min=1, max=40)},)
    package = aotpack.compile(
        model, (floats(length, 3),), dynamic_shapes=shapes, target="interpreter"
    )
    for size in (1, 4, 40):
        x = floats(length, size)
        for ours, eager in zip(package(x), model(x), strict=True):
            torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize(
    ("mode", "shapes", "words"),
    [
        ("generic", {0: Dim("n", max=40)}, "accepted are one of fixed length, and .*scan.scan"),
        ("pointwise", {1: Dim("n", max=40)}, "combine_mode='generic' gives the same"),
    ],
)
def test_scans_along_a_dynamic_length_are_refused(mode: str, shapes: Any, words: str) -> None:
    model = Model(lambda x: associative_scan(torch.add, x, 0, combine_mode=mode))
    with pytest.raises(TraceError, match=words):
        aotpack.compile(model, (floats(5, 3),), dynamic_shapes=(shapes,), target="interpreter")


def there_and_back(x: torch.Tensor, **length: Any) -> torch.Tensor:
    window = torch.hann_window(16)
    spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
    return torch.istft(spectrum, 16, 4, window=window, length=length["length"] if length else None)


def test_signals_of_a_multiple_come_back_without_a_length() -> None:
    model, shapes = Model(there_and_back), ({1: 4 * Dim("n", min=3, max=50)},)
    package = aotpack.compile(model, (floats(1, 64),), dynamic_shapes=shapes, target="interpreter")
    for size in (12, 64, 100):
        x = floats(1, size)
        ours = package(x)
        assert ours.shape == x.shape
        torch.testing.assert_close(ours, model(x))


def test_a_dynamic_length_of_a_signal_is_refused_with_what_to_do() -> None:
    model = Model(lambda x: there_and_back(x, length=x.shape[1]))
    words = r"(?s)n is 64, as istft asks.*torch.istft.*without one it gives hop_length"
    shapes = ({1: Dim("n", min=12, max=200)},)
    with pytest.raises(TraceError, match=words):
        aotpack.compile(model, (floats(1, 64),), dynamic_shapes=shapes, target="interpreter")


def square(x: torch.Tensor, value: Any = 5, **options: bool) -> torch.Tensor:
    return (x @ x.mT).fill_diagonal_(value, **options)


DIAGONALS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "square": square,
    "square that wraps": lambda x: square(x, 2.5, wrap=True),
    "a tensor's number": lambda x: square(x, torch.tensor(3.0)),
    "integers": lambda x: (x @ x.mT).long().fill_diagonal_(2.7).t().fill_diagonal_(1),
    "tall or wide": lambda x: x.clone().fill_diagonal_(4),
    "three dimensions": lambda x: (square(x)[:, None] * square(x)).fill_diagonal_(7),
}


@pytest.mark.parametrize("name", DIAGONALS)
def test_diagonals_of_any_length(name: str) -> None:
    model, shapes = Model(DIAGONALS[name]), ({0: Dim("n", min=1, max=40)},)
    package = aotpack.compile(model, (floats(4, 3),), dynamic_shapes=shapes, target="interpreter")
    for size in (1, 2, 3, 5, 40):
        x = floats(size, 3)
        torch.testing.assert_close(package(x), model(x))


def test_a_diagonal_that_wraps_in_tall_matrices_is_refused() -> None:
    shapes = ({0: Dim("n", min=1, max=40)},)
    with pytest.raises(TraceError, match=r"fill_diagonal_ takes .* without wrap=True.*\n  at "):
        aotpack.compile(
            Model(lambda x: x.clone().fill_diagonal_(1, wrap=True)),
            (floats(4, 3),),
            dynamic_shapes=shapes,
            target="interpreter",
        )


@pytest.mark.parametrize("factor", [2, 3.0, (1.0, 3.0), 1.5])
def test_whole_factors_give_sizes(factor: Any) -> None:
    """What follows knows the sizes: ``pixel_unshuffle`` asks for even ones."""

    def larger(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=factor, mode="bilinear")

    dims = {2: Dim("h", min=1, max=40), 3: Dim("w", min=1, max=40)}
    x = torch.rand(2, 3, 8, 10)
    model = aotpack.compile(Model(larger), (x,), target="cpu", dynamic_shapes=(dims,))
    for sizes in ((1, 1), (7, 3), (40, 33)):
        x = torch.rand(2, 3, *sizes)
        torch.testing.assert_close(model(x), larger(x))


def test_halves_of_a_whole_factor() -> None:
    function = Model(lambda x: F.pixel_unshuffle(F.interpolate(x, scale_factor=2.0), 2))
    x, dims = torch.rand(2, 3, 8, 10), {2: Dim("h", min=1, max=40)}
    model = aotpack.compile(function, (x,), target="cpu", dynamic_shapes=(dims,))
    x = torch.rand(2, 3, 5, 10)
    assert torch.equal(model(x), function(x))
