"""The CUDA port on a GPU: the demo package with Triton kernels, in every framework found here."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aotpack.emit import write_package
from aotpack.precompile import precompile
from aotpack.runtime import ArgumentError, DeviceError, Model, load, verify
from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.devices.device import active
from aotpack.runtime.dtypes import DTYPES
from aotpack.target import device_arch, parse_targets

from .packages import demo

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device_arch() is None, reason="needs an NVIDIA GPU"),
]
HEAD = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
TEXTS = {
    "add": "def add(x, y, out, n):\n    i = tl.program_id(0)\n"
    "    tl.store(out + i, tl.load(x + i) + tl.load(y + i))\n",
    "scale": "def scale(x, w, out, n):\n    i = tl.program_id(0)\n"
    "    tl.store(out + i, tl.load(x + i) * tl.load(w))\n",
}
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rendered = demo().rendered
    kernels = tuple(replace(one, text=HEAD + TEXTS[one.name]) for one in rendered.kernels)
    built = precompile(replace(rendered, kernels=kernels), parse_targets("native"))
    folder = tmp_path_factory.mktemp("gpu") / "demo"
    write_package(built, folder)
    return folder


@pytest.fixture(scope="module")
def model(package: Path) -> Any:
    with load(package) as loaded:
        yield loaded


def test_golden_data_and_nothing_compiled(package: Path) -> None:
    report = verify(package)
    assert report.is_passed, str(report)


def test_torch(model: Model) -> None:
    x = torch.from_numpy(X).cuda()
    result = model(x, x)
    assert result.device == x.device
    torch.testing.assert_close(result, x * 4)
    torch.testing.assert_close(model(x, x), result)


def test_torch_on_another_stream_and_thread(model: Model) -> None:
    results: list[bool] = []

    def work(value: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.full((8, 32), value, dtype=torch.float32, device="cuda")
            for _ in range(50):
                y = model(x, x)
            results.append(bool((y == x * 4).all()))  # on this stream

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


def test_stream_override(package: Path) -> None:
    stream = torch.cuda.Stream()
    with load(package, stream=stream) as model:
        x = torch.from_numpy(X).cuda()
        torch.cuda.synchronize()
        result = model(x, x)
        stream.synchronize()
        torch.testing.assert_close(result, x * 4)


def test_unaligned_and_numpy(model: Model) -> None:
    base = torch.arange(13, dtype=torch.float32, device="cuda")
    x = base[1:7].reshape(2, 3)
    torch.testing.assert_close(model(x, x), x * 4)
    np.testing.assert_array_equal(model(X, X), X * 4)


def test_device_arrays_travel_by_dlpack(model: Model) -> None:
    x = DeviceArray.from_numpy(model.device, X, DTYPES["float32"])
    result = model(x, x)
    assert isinstance(result, DeviceArray)
    np.testing.assert_array_equal(result.numpy(), X * 4)
    np.testing.assert_array_equal(torch.from_dlpack(result).cpu().numpy(), X * 4)
    np.testing.assert_array_equal(torch.as_tensor(result, device="cuda").cpu().numpy(), X * 4)


def test_cupy(model: Model) -> None:
    cupy = pytest.importorskip("cupy")
    result = model(cupy.asarray(X), cupy.asarray(X))
    assert isinstance(result, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(result), X * 4)


def test_weights_from_the_gpu(package: Path) -> None:
    with load(package, weights={"scale": torch.tensor([5.0], device="cuda")}) as model:
        np.testing.assert_array_equal(model(X, X), X * 10)


def test_what_is_refused(package: Path, model: Model) -> None:
    x = torch.from_numpy(X)
    with pytest.raises(ArgumentError, match="'x' is on cpu; this model runs on cuda:0"):
        model(x, x)
    with pytest.raises(DeviceError, match="loading on cuda:99: this machine shows"):
        load(package, 99)
    no_memory = pytest.raises(DeviceError, match="the GPU has no memory left.*OUT_OF_MEMORY")
    with active(model.device), no_memory:
        model.device.alloc(1 << 50)
    np.testing.assert_array_equal(model(X, X), X * 4)


def test_text_of_an_older_architecture_is_compiled_where_that_is_allowed(tmp_path: Path) -> None:
    """On a GPU from 9.0 on: code for sm_80 does not run there, its PTX does."""
    rendered = demo().rendered
    kernels = tuple(replace(one, text=HEAD + TEXTS[one.name]) for one in rendered.kernels)
    built = precompile(replace(rendered, kernels=kernels), parse_targets("sm_80+PTX"))
    write_package(built, tmp_path)
    with pytest.raises(DeviceError, match=r"Build it with --target .* Or load\(allow_jit=True\)"):
        load(tmp_path, 0)
    with load(tmp_path, 0, allow_jit=True) as model:
        assert model.target == "ptx_80"
        np.testing.assert_array_equal(model(X, X), X * 4)
