import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from aotpack.emit.content import Content, safetensors
from aotpack.ir.dtypes import DType


def test_pieces_are_one_file(tmp_path: Path) -> None:
    content = Content("a/b.bin", (memoryview(b"one"), memoryview(b""), memoryview(b"two")))
    content.write(tmp_path)
    assert (tmp_path / "a" / "b.bin").read_bytes() == b"onetwo"
    assert content.size == 6 and content.sha256 == hashlib.sha256(b"onetwo").digest()
    assert content.moved("c").sha256 == content.sha256 and content.moved("c").path == "c"


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    a, b = np.arange(3, dtype=np.int64), np.array([True, False])
    tensors = [
        ("b", DType.BOOL, (2,), memoryview(b.tobytes())),
        ("a", DType.INT64, (3,), memoryview(a.tobytes())),
    ]
    safetensors("t.safetensors", tensors).write(tmp_path)
    read = load_file(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(read["a"], a)
    np.testing.assert_array_equal(read["b"], b)
