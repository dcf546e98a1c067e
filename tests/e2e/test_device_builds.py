"""Builds from a module on a GPU give the bytes of builds from its host copy."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import aotpack
from tools.device_builds import main


def test_the_program_compares_wheels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clip_text", "--device", "cpu", "--target", "interpreter", "-j", "1"]) == 0
    assert "1 of 1 give the same bytes" in capsys.readouterr().out


def test_the_program_tells_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clip_text", "--device", "meta", "--target", "interpreter", "-j", "1"]) == 1
    assert "TraceError" in capsys.readouterr().out


class Mixed(nn.Module):
    """Tied weights, views of one memory, tensors that are no parameters, devices in forward."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("part", self.first.weight.detach()[2:4].t())
        self.table = [torch.arange(8.0)]
        self.device = "cpu"

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.first(x)) + torch.ones(8, device=x.device)
        z = torch.arange(8, device=self.device).float().to(self.device)
        return (y.to(self.device) + self.table[0].to(self.device) + z) @ self.part.to(self.device)


def on_gpu(kind: str) -> tuple[nn.Module, Tensor]:
    model, x = Mixed(), torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    if kind == "host":
        return model, x
    model.device = "cuda"
    if kind == "mixed":
        model.second.cuda()
        return model, x
    model.table[0] = model.table[0].cuda()
    model.cuda()
    model.second.weight = model.first.weight
    model.part = model.first.weight.detach()[2:4].t()
    return model, x.cuda()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["gpu", "mixed"])
def test_a_module_on_a_gpu_gives_the_bytes_of_the_host(kind: str, tmp_path: Path) -> None:
    wheels = []
    for one in ("host", kind):
        model, x = on_gpu(one)
        before = {name: value.device for name, value in model.state_dict().items()}
        wheels.append(aotpack.build(model, (x,), targets="native", out=tmp_path / one))
        assert {name: value.device for name, value in model.state_dict().items()} == before
    if kind == "gpu":
        assert wheels[0].read_bytes() == wheels[1].read_bytes()


@pytest.mark.gpu
def test_a_program_exported_on_a_gpu_is_packaged() -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).cuda(), torch.randn(4, 8, device="cuda")
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        found = aotpack.compile(program, (x,), target="native")(x)
        torch.testing.assert_close(found, model(x))
    assert next(iter(program.state_dict.values())).is_cuda
