import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from aotpack.runtime.errors import WeightError
from aotpack.runtime.safetensors import read_safetensors


def test_reads_what_the_library_writes(tmp_path: Path) -> None:
    tensors = {
        "a": torch.arange(6, dtype=torch.int64).reshape(2, 3),
        "b": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "empty": torch.empty(0, 3),
        "flag": torch.tensor([True, False]),
        "scalar": torch.tensor(3.0, dtype=torch.float64),
    }
    save_file(tensors, tmp_path / "t.safetensors", metadata={"from": "test"})
    read = read_safetensors(tmp_path / "t.safetensors")
    assert set(read) == set(tensors)
    for name, tensor in tensors.items():
        stored = read[name]
        assert (str(stored.dtype), stored.shape) == (str(tensor.dtype)[6:], tuple(tensor.shape))
        wanted = tensor.view(torch.uint16) if tensor.dtype is torch.bfloat16 else tensor
        np.testing.assert_array_equal(stored.data, wanted.numpy())


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 12]}, "bytes 0 to 12 of 8 bytes"),
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, r"float32\[3\].*takes 8 bytes"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}, r"takes 8 bytes"),
        ({"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}, "misstates 'F99'"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "holds 8 bytes.*describes 4"),
        ({"dtype": "F32", "shape": [2]}, "misstates 'data_offsets'"),
    ],
)
def test_headers_that_lie(tmp_path: Path, entry: dict, message: str) -> None:
    header = json.dumps({"w": entry}).encode()
    file = tmp_path / "w.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(WeightError, match=message):
        read_safetensors(file)


@pytest.mark.parametrize("header", [b"{", b"[]"])
def test_headers_that_are_no_object(tmp_path: Path, header: bytes) -> None:
    file = tmp_path / "w.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(WeightError, match="its header is not"):
        read_safetensors(file)
