import ctypes
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from aotpack.precompile import precompile
from aotpack.precompile.interpreter import device as interpreter
from aotpack.precompile.interpreter.device import (
    HostKernel,
    InterpreterDevice,
    interpretable,
    launch,
    pointer_type,
    scalar_type,
)
from aotpack.runtime.devices.device import Step
from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.errors import DeviceError
from aotpack.runtime.manifest import Binary, Kernel, KernelArg
from aotpack.runtime.sizes import Size
from aotpack.target import Target
from tests.precompile.kernels import ADD, kernel, rendered

HEAD = """import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def larger(value, index, other, other_index):
    take = (value > other) | ((value == other) & (index < other_index))
    return tl.where(take, value, other), tl.where(take, index, other_index)


@triton.jit
def k({params}):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    mask = i < n
"""


def run(body: str, n: int, **arrays: np.ndarray[Any, Any]) -> None:
    """Interpret a kernel over 16 elements a program; each argument is a pointer to an array."""
    params = ", ".join([*arrays, "n"])
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    function = interpretable("k", HEAD.format(params=params) + lines)
    types = [pointer_type(_dtype(array)) for array in arrays.values()]
    host = HostKernel("k", function, (*types, scalar_type("int32")))
    launch(host, (-(-n // 16), 1, 1), [*(a.ctypes.data for a in arrays.values()), n])


def _dtype(array: np.ndarray[Any, Any]) -> str:
    return "bfloat16" if array.dtype == np.uint16 else array.dtype.name


def test_masked_accesses_stay_inside_raw_memory() -> None:
    block = np.full(64, 7, np.float32)
    source, result = np.arange(21, dtype=np.float32), block[:21]
    body = "tl.store(y + i, tl.load(x + i, mask=mask, other=0.0) * 2, mask=mask)"
    run(body, 21, x=source, y=result)
    assert np.array_equal(result, source * 2)
    assert (block[21:] == 7).all()


def test_a_load_masked_off_does_not_touch_its_address() -> None:
    result = np.zeros(16, np.float32)
    body = "tl.store(y + i, tl.load(x + i + (1 << 50), mask=i < 0, other=3.0), mask=mask)"
    run(body, 16, x=np.zeros(1, np.float32), y=result)
    assert (result == 3).all()


def test_bools_are_single_bytes_in_memory() -> None:
    flags, result = np.array([True, False] * 8), np.zeros(16, np.bool_)
    body = "tl.store(y + i, tl.load(x + i, mask=mask) == 0, mask=mask)"
    run(body, 16, x=flags, y=result)
    assert np.array_equal(result, ~flags)


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, -2.5, 0.0] * 4, np.float32)
    bits = np.zeros(16, np.uint16)
    body = "tl.store(y + i, tl.load(x + i, mask=mask).to(tl.bfloat16), mask=mask)"
    run(body, 16, x=values, y=bits)
    assert bits[:3].tolist() == [0x3F80, 0x3F82, 0xC020]


def test_bfloat16_keeps_nan_and_infinity() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 3.4e38] * 4, np.float32)
    bits, back = np.zeros(16, np.uint16), np.zeros(16, np.float32)
    run("tl.store(y + i, tl.load(x + i).to(tl.bfloat16))", 16, x=values, y=bits)
    run("tl.store(y + i, tl.load(x + i).to(tl.float32))", 16, x=bits, y=back)
    np.testing.assert_array_equal(back[:4], [np.nan, np.inf, -np.inf, np.inf])


def test_products_of_bfloat16_matrices() -> None:
    values = torch.randn(16, 16).bfloat16()
    bits, result = values.view(torch.uint16).numpy(), np.zeros((16, 16), np.float32)
    body = """
at = i[:, None] * 16 + i[None, :]
a = tl.load(x + at)
tl.store(y + at, tl.dot(a, a))
"""
    run(body, 16, x=bits, y=result)
    np.testing.assert_allclose(result, (values.float() @ values.float()).numpy(), atol=1e-5)


def test_reductions_and_scans_of_any_function() -> None:
    values = np.array([3, 1, 9, 9, -2, 0, 4, 8] * 2, np.float32)
    best, at, sums = np.zeros(1, np.float32), np.zeros(1, np.int32), np.zeros(16, np.float32)
    body = """
a = tl.load(x + i)
value, index = tl.reduce((a, i), 0, larger)
tl.store(best, value)
tl.store(at, index)
tl.store(sums + i, tl.cumsum(a, 0))
"""
    run(body, 16, x=values, best=best, at=at, sums=sums)
    assert (best[0], at[0]) == (9, 2)
    assert np.array_equal(sums, np.cumsum(values))


def test_reductions_keep_dimensions_and_propagate_nan() -> None:
    values, result = np.ones(16, np.float32), np.zeros(16, np.float32)
    values[5] = np.nan
    body = """
a = tl.reshape(tl.load(x + i), (4, 4))
s = tl.sum(a, 1, keep_dims=True) + tl.zeros([4, 4], tl.float32)
tl.store(y + i, tl.reshape(s, (16,)))
"""
    run(body, 16, x=values, y=result)
    assert np.isnan(result[4:8]).all()
    assert (result[:4] == 4).all() and (result[8:] == 4).all()


@pytest.mark.parametrize("name", ["erf", "expm1", "tanh", "log1p", "rsqrt"])
def test_libdevice_functions(name: str) -> None:
    values, result = np.linspace(0.1, 2, 16, dtype=np.float32), np.zeros(16, np.float32)
    run(f"tl.store(y + i, libdevice.{name}(tl.load(x + i)))", 16, x=values, y=result)
    expected = getattr(torch, name)(torch.from_numpy(values).double()).numpy()
    np.testing.assert_allclose(result, expected, rtol=2e-6)


def test_libdevice_at_infinities() -> None:
    values = np.array([np.inf, -np.inf, np.nan, -1, 3, 0.5, 0, -0.5], np.float32)
    result = np.zeros(8, np.float32)
    body = "tl.store(y + i, libdevice.lgamma(tl.load(x + i, mask=mask)), mask=mask)"
    run(body, 8, x=values, y=result)
    expected = torch.lgamma(torch.from_numpy(values).double()).numpy()
    np.testing.assert_allclose(result, expected, rtol=2e-6)


def test_numbers_that_numpy_makes_scalars_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.6's own store refuses them, so it gets arrays."""
    assert not isinstance(np.log(np.array(1, np.float32)), np.ndarray)
    own, stored = interpreter._STORE, list[type]()

    def store(pointers: Any, value: Any, mask: Any) -> None:
        stored.append(type(value))
        own(pointers, value, mask)

    monkeypatch.setattr(interpreter, "_STORE", store)
    result = np.zeros(1, np.float32)
    run("tl.store(y, tl.log(tl.sum(tl.load(x + i), 0)))", 16, x=np.ones(16, np.float32), y=result)
    np.testing.assert_allclose(result, np.log(16.0), rtol=1e-6)
    assert stored == [np.ndarray]


def test_functions_named_as_those_of_clusters_are_interpreted() -> None:
    head = "@triton.jit\ndef wait(x, y):\n    return x + y\n\n\n@triton.jit\ndef k("
    text = HEAD.replace("@triton.jit\ndef k(", head).format(params="y, n")
    function = interpretable("k", text + "    tl.store(y + i, wait(i, 1), mask=mask)\n")
    result = np.zeros(16, np.int32)
    host = HostKernel("k", function, (pointer_type("int32"), scalar_type("int32")))
    launch(host, (1, 1, 1), [result.ctypes.data, 16])
    assert np.array_equal(result, np.arange(1, 17))


def test_an_unknown_libdevice_function_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"libdevice.cyl_bessel_i0 is not known.*it knows abs"):
        x = np.zeros(16, np.float32)
        run("tl.store(x + i, libdevice.cyl_bessel_i0(tl.load(x + i)))", 16, x=x)


def test_a_failing_kernel_is_named_with_its_program() -> None:
    with pytest.raises(DeviceError, match=r"kernel k, program \(0, 0, 0\) of \(2, 1, 1\).*missing"):
        run("tl.store(x + i, missing)", 17, x=np.zeros(17, np.float32))


def test_a_text_that_does_not_load_is_refused() -> None:
    with pytest.raises(DeviceError, match="loading the kernel k into the interpreter failed"):
        interpretable("k", "def k(:\n")


def test_the_language_is_as_before_afterwards() -> None:
    before = {name: vars(tl)[name] for name in ("sum", "load", "reduce", "range")}
    run("tl.store(x + i, tl.sum(tl.load(x + i), 0))", 16, x=np.zeros(16, np.float32))
    assert {name: vars(tl)[name] for name in before} == before
    product = precompile(rendered(kernel("after")), [Target("cuda", 90)])
    assert product.binaries[0].code[:4] == b"\x7fELF"
    assert not triton.knobs.runtime.interpret


def test_threads_take_turns() -> None:
    arrays = [np.full(16, number, np.float32) for number in range(4)]
    body = "tl.store(x + i, tl.load(x + i) + tl.sum(tl.load(x + i), 0))"
    threads = [threading.Thread(target=run, args=(body, 16), kwargs={"x": a}) for a in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [array[0] for array in arrays] == [0, 17, 34, 51]


def packaged(suffix: str) -> tuple[Kernel, Binary]:
    binary = Binary(f"kernels/add.{suffix}", "", 0, "add", 4, 1, 0, 0, 1, 0, 0, False)
    args = [
        KernelArg(DTYPES[d], p, written=False)
        for d, p in (("float32", 1), ("float32", 1), ("int32", 0))
    ]
    source, nothing = "kernels/source/add.py", Size(0)
    return Kernel("add", tuple(args), source, nothing, nothing, {}), binary


def test_a_device_runs_steps_over_its_cells() -> None:
    device = InterpreterDevice()
    handle = device.load(*packaged("py"), ADD.format(name="add").encode())
    memory = device.alloc(4 * 130)
    assert memory % 256 == 0
    ones = np.ones(130, np.float32)
    device.copy_in(memory, ones.ctypes.data, ones.nbytes, 0)
    cells = (ctypes.c_uint64 * 4)(0, memory, memory, 130)
    device.executor([Step(handle, "add", (2, 1, 1), (1, 2, 3), 0, ())], cells, graphs=False)(0)
    result = np.zeros(130, np.float32)
    device.copy_out(result.ctypes.data, memory, result.nbytes, 0)
    np.testing.assert_allclose(result, 1.8427008, rtol=1e-6)
    device.free(memory)
    device.close()


def test_negative_sizes_come_out_of_their_cells() -> None:
    result = np.zeros(1, np.int32)
    types = (pointer_type("int32"), scalar_type("int32"))
    text = HEAD.format(params="y, n") + "    tl.store(y, n)\n"
    host = HostKernel("k", interpretable("k", text), types)
    launch(host, (1, 1, 1), [result.ctypes.data, 2**64 - 5])
    assert result[0] == -5


def test_targets_of_a_package() -> None:
    assert InterpreterDevice().select(["interpreter", "sm_90"]) == ("interpreter", 80)
    assert InterpreterDevice(Path("package")).select(["sm_90"]) == ("sm_90", 90)
    both, hopper = ["cpu", "interpreter", "sm_80", "sm_90"], Target.parse("sm_90")
    assert InterpreterDevice(Path("package"), hopper).select(both) == ("sm_90", 90)


def test_a_package_without_texts_is_refused() -> None:
    with pytest.raises(DeviceError, match="has kernels for sm_90; build it with --target interp"):
        InterpreterDevice().select(["sm_90"])
    with pytest.raises(DeviceError, match="has kernels for sm_80; build it with --target sm_90"):
        InterpreterDevice(Path("package"), Target.parse("sm_90")).select(["sm_80"])


def test_a_package_for_gpus_is_interpreted_from_its_sources(tmp_path: Path) -> None:
    (tmp_path / "kernels" / "source").mkdir(parents=True)
    (tmp_path / "kernels" / "source" / "add.py").write_text(ADD.format(name="add"))
    handle = InterpreterDevice(tmp_path).load(*packaged("cubin"), b"\x7fELF")
    assert handle.name == "add"
