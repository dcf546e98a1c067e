import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from aotpack.runtime.errors import WeightError
from aotpack.runtime.safetensors import parse_safetensors, read_safetensors


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


def write(path: Path, header: bytes, data: bytes = bytes(8)) -> Path:
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def entry(*offsets: Any, shape: Any = (2,), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            {"w": entry(0, 12)},
            r"w.data_offsets is \[0, 12\]; accepted: .*\[2\], which takes 8 byte",
        ),
        ({"w": entry(0, 8, shape=[3])}, r"float32\[3\], which takes 12 bytes"),
        ({"w": entry(0, 8, shape=[-2])}, r"w.shape\[0\] is -2; accepted: 0 to"),
        ({"w": entry(0, 8, dtype="F99")}, "w.dtype is 'F99'; accepted: BOOL"),
        ({"w": entry(0, 8, dtype=["F32"])}, "w.dtype is a list of 1; accepted: BOOL"),
        ({"w": entry("0", "8")}, r"w.data_offsets\[0\] is '0'; accepted: an integer"),
        ({"w": entry(0.0, 8.0)}, r"w.data_offsets\[0\] is 0.0; accepted: an integer"),
        ({"w": entry(False, 8)}, r"w.data_offsets\[0\] is false; accepted: an integer"),
        ({"w": entry(8, 0)}, r"w.data_offsets is \[8, 0\]"),
        ({"w": entry(0, 4, 8)}, r"w.data_offsets is \[0, 4, 8\]"),
        ({"w": entry(0, 1 << 70)}, "is 1180591620717411303424; accepted: 0 to"),
        ({"w": entry(0, 8, shape=[float("inf")])}, "Infinity is no number in JSON"),
        ({"w": entry(0, 0, shape=[0, 1 << 63])}, r"w.shape\[1\] is 9223372036854775808; accepted"),
        ({"w": entry(0, 0, shape=[0, 1 << 62])}, "w.shape is .*; accepted: .* bytes at most"),
        ({"w": entry(0, 8, shape=[1] * 65)}, "w.shape is a list of 65; accepted: at most 64"),
        ({"w": entry(0, 4, shape=[1])}, "holds 8 bytes.*describes 4"),
        ({"w": entry(4, 8, shape=[1])}, "'w' lies behind a hole: it begins at byte 4, not 0"),
        ({"w": entry(0, 16, shape=[4])}, "it holds 8 bytes of data, its header describes 16"),
        ({"v": entry(0, 8), "w": entry(4, 8, shape=[1])}, "'w' overlaps the one before it"),
        ({"w": {"dtype": "F32", "shape": [2]}}, "w.data_offsets is absent"),
        ({"w": entry(0, 8) | {"strides": [1]}}, "w.strides is there; accepted: the keys data_off"),
        ({"w": 5}, "w is 5; accepted: an object"),
        ({"w": entry(0, 8), "__metadata__": {"a": 1}}, "a is 1; accepted: text"),
    ],
)
def test_headers_that_lie(tmp_path: Path, header: dict[str, Any], message: str) -> None:
    file = write(tmp_path / "w.safetensors", json.dumps(header).encode())
    with pytest.raises(WeightError, match=message):
        read_safetensors(file)
    with pytest.raises(WeightError, match=message):
        parse_safetensors(file.read_bytes(), file)


ENTRY = json.dumps(entry(0, 8)).encode()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "its header is not JSON"),
        (b"[]", "its header is not an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"w": ' + ENTRY + b', "w": ' + ENTRY + b"}", "the key 'w' is there twice"),
        (b'{"\xff": ' + ENTRY + b"}", "is not UTF-8"),
    ],
)
def test_headers_that_are_no_object(tmp_path: Path, header: bytes, message: str) -> None:
    with pytest.raises(WeightError, match=message):
        read_safetensors(write(tmp_path / "w.safetensors", header))


def test_a_header_of_as_many_dimensions_as_there_may_be(tmp_path: Path) -> None:
    header = json.dumps({"w": entry(0, 8, shape=[1] * 31 + [2])}).encode()
    (stored,) = read_safetensors(write(tmp_path / "w.safetensors", header)).values()
    assert stored.data.ndim == 32 and stored.begin == 8 + len(header)


@pytest.mark.parametrize("content", [b"", b"1234567", bytes([255] * 8), bytes([16] + [0] * 7)])
def test_files_without_a_header(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "w.safetensors"
    file.write_bytes(content)
    with pytest.raises(WeightError, match="do not hold the header they promise"):
        read_safetensors(file)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "lost"):
        with pytest.raises(WeightError, match=f"reading {path}: .*; check the path"):
            read_safetensors(path)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04" + bytes(90), "a zip archive, such as torch.save"),
        (b"\x80\x02}q\x00" + bytes(90), "a pickle"),
        (b"GGUF\x03" + bytes(90), "a GGUF file"),
        (b"import torch\n", "a text that begins with 'import t'"),
        (b"<!DOCTYPE html>\n", "a text that begins with '<!DOCTYP'"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_files_of_other_formats(tmp_path: Path, content: bytes, kind: str) -> None:
    file = tmp_path / "weights.pt"
    file.write_bytes(content)
    with pytest.raises(WeightError, match=f"it is {kind}.*; accepted: a safetensors file"):
        read_safetensors(file)
