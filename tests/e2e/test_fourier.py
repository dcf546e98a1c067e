"""Fourier transforms: short and long lengths, primes, several dimensions, windows of a signal."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.lower.fourier.transform import stage_lengths
from aotpack.pipeline import Build, BuildOptions, Source, compile
from aotpack.target import CPU
from tests.e2e.law import LAW, accuracy_complaint
from tests.e2e.oracle import agree, compile_all, weight_arrays
from tools.fourier import Each, Transform, inputs, main, transforms

LENGTHS = (1, 2, 17, 77, 100)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given)


def evaluated(each: list[Transform], dtype: torch.dtype) -> None:
    """The meaning of the lowered program, under the law with room for another order of sums."""
    model, given = Each(each).eval(), inputs(each, dtype)
    lowered = Build(Source(model, tuple(given)), BuildOptions((CPU,), golden=0)).lowered
    names = [spec.name for spec in lowered.signature.inputs]
    arrays = {name: part.numpy() for name, part in zip(names, given, strict=True)}
    program = lowered.program
    kept = {name: array for name, array in arrays.items() if name in program.buffers}
    found = evaluate(program, kept, weight_arrays(lowered.weights, program), {})
    exact = model(*(part.double() for part in given))
    loose = type(LAW)(factor=8)
    for one, name, theirs, reference in zip(
        each, program.outputs, model(*given), exact, strict=True
    ):
        ours = torch.from_numpy(found[name])
        assert not (words := accuracy_complaint(ours, theirs, reference, loose)), f"{one}: {words}"


@pytest.mark.row("C:D7")
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_of_many_lengths(name: str) -> None:
    evaluated([*transforms(LENGTHS, [name])], torch.float32)


def test_a_long_prime_is_a_convolution() -> None:
    assert stage_lengths(509) == ()
    evaluated([Transform("fft", 509), Transform("irfft", 2 * 509)], torch.float64)


@pytest.mark.parametrize(
    ("length", "stages"),
    [(1, (1,)), (63, (63,)), (64, (8, 8)), (4096, (8, 8, 8, 8)), (1000, (10, 10, 10))],
)
def test_stages_are_few_and_alike(length: int, stages: tuple[int, ...]) -> None:
    assert stage_lengths(length) == stages


@pytest.mark.row("C:D7")
def test_all_targets_agree() -> None:
    def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        spectrum = torch.fft.rfft(x)
        return torch.view_as_real(spectrum), torch.fft.irfft(spectrum * spectrum.conj(), n=128)

    compiled = compile_all(
        Function(both), (torch.randn(3, 128),), None, (({0: Dim("b", min=1, max=9)},),)
    )
    for rows in (1, 3):
        agree(compiled, (torch.randn(rows, 128),))


@pytest.mark.row("C:D7")
def test_windows_of_a_signal_and_back() -> None:
    window = torch.hann_window(12)

    def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        spectrum = torch.stft(x, 12, 4, window=window, return_complex=True)
        return spectrum.abs(), torch.istft(spectrum * 2, 12, 4, window=window, length=60)

    agree(compile_all(Function(both), (torch.randn(2, 60),)), (torch.randn(2, 60),))


def test_a_dynamic_length_is_refused() -> None:
    model, given = Function(lambda x: torch.fft.rfft(x).abs()), (torch.randn(2, 12),)
    with pytest.raises(UnsupportedError, match="of a Fourier transform is dynamic .*n= .or s="):
        compile(model, given, dynamic_shapes=(({1: Dim("n", min=4, max=30)},),), target="cpu")


BESIDE = {
    "the first dimension": lambda x: torch.fft.fft(x, dim=1).abs(),
    "a length that pads and cuts": lambda x: torch.fft.fft(x, n=8, dim=0).abs(),
    "by position": lambda x: torch.fft.rfft(x, 13, 0, "ortho").abs(),
    "half of a spectrum": lambda x: torch.fft.irfft(x, n=9, dim=0),
    "of complex numbers": lambda x: torch.fft.ifft(torch.complex(x, x.flip(1)), n=9, dim=0).abs(),
    "a plane": lambda x: torch.fft.rfft2(x, (8, 4)).abs(),
    "back from a plane": lambda x: torch.fft.irfftn(x, (8, 6), (1, 0)),
    "dimensions apart": lambda x: torch.fft.fftn(x[:, None] * x[..., None], dim=(2, 1)).abs(),
}


@pytest.mark.row("C:D7")
@pytest.mark.parametrize("name", BESIDE)
def test_fixed_lengths_beside_dynamic_sizes(name: str) -> None:
    model = Function(BESIDE[name])
    shapes = (({0: Dim("n", min=1, max=64)},),)
    package = compile(model, (torch.randn(12, 5),), dynamic_shapes=shapes, target="interpreter")
    for rows in (1, 2, 5, 7, 8, 9, 13, 64):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(package(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "hfft", "fftn", "irfft"])
def test_a_dynamic_length_of_another_dimension_is_refused(name: str) -> None:
    transform = getattr(torch.fft, name)
    given = {"dim": (0,)} if name == "fftn" else {"dim": 0}
    model = Function(lambda x: transform(x, **given).abs())
    shapes = (({0: Dim("n", min=2, max=30)},),)
    words = r"Fourier transform is dynamic (.|\n)*along a dimension of fixed length\n.*test_fourier"
    with pytest.raises(UnsupportedError, match=words):
        compile(model, (torch.randn(12, 5),), dynamic_shapes=shapes, target="cpu")


@pytest.mark.parametrize(
    "transform",
    [
        lambda x: torch.fft.rfft(x, n=x.shape[0], dim=1),
        lambda x: torch.fft.irfft(x, x.shape[0] - 1),
        lambda x: torch.fft.fft2(x, s=(4, x.shape[0])),
        lambda x: torch.fft.fftn(x, (2 * x.shape[0],)),
    ],
)
def test_a_dynamic_length_that_is_given_is_refused(transform: Callable[[Any], Any]) -> None:
    model, shapes = Function(lambda x: transform(x).abs()), ({0: Dim("n", min=2, max=30)},)
    words = r"Fourier transform is dynamic \([ns]= of torch.fft(.|\n)*\n.*test_fourier"
    with pytest.raises(TraceError, match=words) as raised:
        compile(model, (torch.randn(12, 5),), dynamic_shapes=(shapes,), target="cpu")
    assert "Declare" not in str(raised.value)


def test_the_program_prints_each_transform(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--lengths", "5", "--transforms", "fft"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "fft 5 1d ortho agrees"
