"""manifest.json as values, and manifests that lack or misstate something."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotpack.emit.package import reseal
from aotpack.runtime import PackageError, load
from aotpack.runtime.files.checked import read_checked
from aotpack.runtime.manifest import parse_manifest, read_manifest
from aotpack.trees import Tree

from .fake_device import FakeDevice
from .packages import LEAF, rewrite, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_what_a_build_wrote_is_read(package: Path) -> None:
    manifest = read_manifest(package)
    assert [str(size) for size in manifest.signature.sizes] == ["b in 1 to 8", "s in 0 to 32"]
    (weight,) = manifest.weights
    assert (weight.names, weight.shape, weight.constant) == (("scale", "alias"), (1,), False)
    args = manifest.kernels["scale"].args
    assert [(arg.pointer, arg.written) for arg in args] == [
        (True, False),
        (True, False),
        (True, True),
        (False, False),
    ]
    binary = manifest.kernels["add"].binaries["fake"]
    assert read_checked(package, binary.file, binary.sha256).startswith(b"def add(")


Change = Callable[[dict[str, Any]], Any]


def put(*path: Any) -> Change:
    """A change of one value of the manifest: the keys that lead to it, then the value."""

    def change(data: dict[str, Any]) -> None:
        inner: Any = data
        for key in path[:-2]:
            inner = inner[key]
        inner[path[-2]] = path[-1]

    return change


KERNEL = ("kernels", "add")
BINARY = (*KERNEL, "binaries", "fake")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("schema", 9), "has schema 9; this runtime reads schema 2"),
        (put("schema", True), "schema is true; accepted: an integer"),
        (put("schema", "2"), "schema is '2'; accepted: an integer"),
        (put("peak_bytes", None), "peak_bytes is null; accepted: an integer"),
        (put("peak_bytes", -1), "peak_bytes is -1; accepted: 0 to"),
        (put("new", 1), "new is there; accepted: the keys aotpack, args"),
        (put("sizes", 0, "multiple", 0), r"sizes\[0\].multiple is 0; accepted: 1 to"),
        (put("sizes", 0, "low", "1"), r"sizes\[0\].low is '1'; accepted: an integer"),
        (put("sizes", 0, "low", 9), r"sizes\[0\].high is 8; accepted: 9, which is low"),
        (put("sizes", 1, "name", "b"), "sizes is 'b' 2 times; accepted: different names"),
        (put("inputs", 0, "shape", 0, 1e400), r"inputs\[0\].shape\[0\] is .*Infinity|is no number"),
        (put("inputs", 0, "shape", 0, 1.5), r"inputs\[0\].shape\[0\] is 1.5; accepted: an int"),
        (put("inputs", 0, "shape", 0, -1), r"inputs\[0\].shape\[0\] is -1; accepted: 0 to"),
        (put("inputs", 0, "shape", 0, "b//0"), "it divides by zero"),
        (put("inputs", 0, "shape", 0, "n"), "the shape of x.* is n, with n; accepted: the sizes"),
        (put("inputs", 0, "shape", [1] * 65), "a list of 65; accepted: at most 64 dimensions"),
        (put("inputs", 0, "dtype", ["f"]), r"inputs\[0\].dtype is a list of 1; accepted: bool"),
        (put("inputs", 0, "name", "y"), "the tensors.* is 'y' 2 times"),
        (put("outputs", []), "result is a structure of 1 tensors; accepted: 0"),
        (put("args", {"kind": "leaf"}), "args is a structure of 1 tensors; accepted: 2"),
        (put("result", "kind", "heap"), "result.kind is 'heap'; accepted: leaf, none"),
        (put("result", "keys", ["a"]), "result.keys is a list of 1; accepted: 0 different keys"),
        (
            put("positional", ["x", "y", "z"]),
            "positional is .* of 3; accepted: 2 names that are no keys",
        ),
        (put("defaults", {"y": 1}), "defaults.y is there; accepted: names that args and kwargs"),
        (put("defaults", {"z": [1]}), "defaults.z is a list of 1; accepted: true, false, null"),
        (put("updates", ["z"]), r"updates\[0\] is 'z'; accepted: an input or a weight"),
        (put("weights", 0, "shape", [1 << 62]), r"weights\[0\].shape is float32"),
        (put("weights", 0, "constant", 0), r"weights\[0\].constant is 0; accepted: true or false"),
        (put("weights_mode", "pickle"), "weights_mode is 'pickle'; accepted: embed, sidecar, none"),
        (put("wrapper_sha256", 5), "wrapper_sha256 is 5; accepted: text"),
        (put("wrapper_sha256", "F" * 64), "accepted: a sha256 as 64 hexadecimal digits"),
        (put("targets", ["fake", "fake"]), "targets is 'fake' 2 times"),
        (put("golden", "eager_errors", []), "golden.eager_errors is a list of 0; accepted: 1"),
        (put("golden", "eager_errors", [-1]), r"golden.eager_errors\[0\] is -1.0; accepted: 0"),
        (put("host", {"machine": 5, "arch": "x"}), "host.machine is 5; accepted: text"),
        (put(*BINARY, "symbol", 5), "kernels.add.binaries.fake.symbol is 5; accepted: text"),
        (put(*BINARY, "symbol", "a b"), "symbol is 'a b'; accepted: an identifier"),
        (put(*BINARY, "symbol", "scale"), "fake.symbol is 'scale'; accepted: add, the kernel's"),
        (put(*BINARY, "symbol", "malloc"), "symbol is 'malloc'; accepted: add, the kernel's name"),
        (
            put(*BINARY, "maps", [{"swizzle": 3, "element": 9, "box": [64, 64]}]),
            "fake.maps is 1; accepted: 0 at most, as many as the kernel's",
        ),
        (
            put("outputs", 0, "name", "output1"),
            r"outputs\[0\].name is 'output1'; accepted: output0",
        ),
        (put(*BINARY, "file", "/bin/sh"), "file is '/bin/sh'; accepted: a path in the package"),
        (put(*BINARY, "file", "../x"), "file is '../x'; accepted: a path in the package"),
        (put(*BINARY, "num_warps", 0), "num_warps is 0; accepted: 1 to"),
        (put(*KERNEL, "moved", "2*q"), "the work of add.* is 2.q, with q; accepted: the sizes"),
        (put(*KERNEL, "args", 0, "pointer", 1), r"args\[0\].pointer is 1; accepted: true or false"),
    ],
)
def test_what_the_schema_refuses(
    package: Path, device: FakeDevice, change: Change, message: str
) -> None:
    data = json.loads((package / "manifest.json").read_bytes())
    change(data)
    rewrite(package, data)
    with pytest.raises(PackageError, match=f"manifest.json.*({message})"):
        load(package, device)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[]", "the whole is a list of 0; accepted: an object"),
        (b'{"schema": ', "is not JSON"),
        (b'{"schema": 2, "schema": 2}', "the key 'schema' is there twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"name": "\xff"}', "is not UTF-8"),
    ],
)
def test_text_that_is_no_manifest(
    package: Path, device: FakeDevice, text: bytes, message: str
) -> None:
    (package / "manifest.json").write_bytes(text)
    reseal(package)
    with pytest.raises(PackageError, match=message):
        load(package, device)


def test_a_manifest_with_two_kernels_swapped_is_not_that_of_the_build(
    package: Path, device: FakeDevice
) -> None:
    data = json.loads((package / "manifest.json").read_bytes())
    kernels = data["kernels"]
    kernels["add"]["binaries"], kernels["scale"]["binaries"] = (
        kernels["scale"]["binaries"],
        kernels["add"]["binaries"],
    )
    (package / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(PackageError, match="manifest.json is damaged: .* SHA256SUMS says"):
        load(package, device)


def test_deep_structures_are_refused(package: Path, device: FakeDevice) -> None:
    data = json.loads((package / "manifest.json").read_bytes())
    for _ in range(600):
        data["result"] = {"kind": "tuple", "children": [data["result"]]}
    with pytest.raises(PackageError, match="nested deeper than Python recurses"):
        parse_manifest(data, package)


def test_numbers_that_json_lacks(tmp_path: Path) -> None:
    constants = (Tree("constant", value=value) for value in (float("inf"), -float("inf"), 2.5))
    folder = write_demo(tmp_path, args=Tree("tuple", (LEAF, LEAF, *constants)))
    *_, high, low, plain = read_manifest(folder).signature.args.children
    assert (high.value, low.value, plain.value) == (float("inf"), -float("inf"), 2.5)
