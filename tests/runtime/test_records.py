"""The manifest's records of kernels and of operators that torch runs."""

from typing import Any

import pytest

from aotpack.runtime.files.schema import Mismatch, read_record
from aotpack.runtime.manifest import Kernel, TorchCall

BINARY = {
    "file": "kernels/sm_90/add.cubin",
    "sha256": "0" * 64,
    "bytes": 4,
    "symbol": "add",
    "num_warps": 4,
    "num_ctas": 1,
    "shared": 0,
    "global_scratch": 0,
    "global_scratch_align": 1,
    "registers": 32,
    "spills": 0,
    "starts_early": False,
}


def record(**binary: Any) -> dict[str, Any]:
    args = [{"dtype": "float32", "pointer": True, "written": True}]
    found = {"args": args, "source": "kernels/source/add.py", "moved": 8, "flops": "2*b"}
    return {**found, "binaries": {"sm_90": {**BINARY, **binary}}}


def test_a_kernel_is_called_as_it_stands() -> None:
    kernel = read_record(Kernel, record(), "add")
    assert kernel.name == "add" and kernel.flops.evaluate({"b": 3}) == 6


def test_a_symbol_of_another_name_is_refused() -> None:
    with pytest.raises(Mismatch) as caught:
        read_record(Kernel, record(symbol="mul"), "add")
    assert "binaries.sm_90.symbol is 'mul'; accepted: add" in str(caught.value)


def test_a_split_of_memory_is_a_percentage() -> None:
    assert read_record(Kernel, record(), "add").binaries["sm_90"].carveout == 0
    assert read_record(Kernel, record(carveout=100), "add").binaries["sm_90"].carveout == 100
    with pytest.raises(Mismatch) as caught:
        read_record(Kernel, record(carveout=101), "add")
    assert "binaries.sm_90.carveout is 101" in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"args": [{"passed": 2}]}, "args is a number"), ({"results": 3}, "results is 3")],
)
def test_a_call_takes_what_is_passed(changed: dict[str, Any], told: str) -> None:
    call = {"operator": "aten.add.Tensor", "args": [{"passed": 1}], "kwargs": {}}
    call |= {"dtypes": ["float32", None], "results": 1, "reason": "none"}
    assert read_record(TorchCall, call).results == 1
    with pytest.raises(Mismatch) as caught:
        read_record(TorchCall, {**call, **changed})
    assert told in str(caught.value)
