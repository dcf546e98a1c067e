"""What a package says of itself: its call, its tensors, and where it runs."""

import re
from dataclasses import replace

import pytest

from aotpack.devices import PRODUCTS
from aotpack.emit.description import classifiers, description_text
from aotpack.emit.platforms import not_on, runs_on
from aotpack.runtime import DeviceError
from aotpack.runtime.devices.cuda import CudaDevice
from aotpack.stages import HostBuild
from aotpack.target import (
    CPU,
    DEFAULT_TARGETS,
    INTERPRETER,
    SUPPORTED_ARCHES,
    Target,
    parse_targets,
)
from aotpack.trees import Tree

from .builds import IDENTITY, LEAF, tiny

HOST = HostBuild("x86_64", "x86-64-v3", (2, 29))
NEEDED = ("cuda-bindings", "numpy")


def test_it_shows_the_call_the_tensors_and_the_sizes() -> None:
    text = description_text(tiny(), IDENTITY, NEEDED, "embed")
    assert "# tiny_model 1.0rc1\n" in text and "result = model(x)\n" in text
    assert "| `x` | float32 | b x 4 |" in text and "| `output0` | float32 | 2*b x 4 |" in text
    assert "- `b`: 1 to 8\n" in text and "cuda-bindings and numpy are enough" in text


def test_a_call_is_written_with_the_structure_of_the_arguments() -> None:
    x = tiny().rendered.signature.inputs[0]
    names = ("a", "b", "c", "d")
    args = Tree("tuple", (Tree("list", (LEAF, Tree("none"))), Tree("constant", value=3)))
    pair = Tree("named", (LEAF,), ("left",), name="Pair")
    kwargs = Tree("dict", (Tree("dict", (LEAF, LEAF), ("k", "l")), pair), ("m", "n"))
    inputs = tuple(replace(x, name=name) for name in names)
    text = description_text(tiny(inputs=inputs, args=args, kwargs=kwargs), IDENTITY, NEEDED, "none")
    assert "model([a, None], 3, m={'k': b, 'l': c}, n=Pair(left=d))" in text
    assert "The package has no weights" in text and "tiny_model.load(weights=FILE)" in text


def test_results_and_checks_are_those_of_the_package() -> None:
    result = Tree("dict", (LEAF,), ("logits",))
    text = description_text(tiny(result=result), IDENTITY, NEEDED, "embed")
    assert "| `logits` | float32 | 2*b x 4 |" in text and "output0" not in text
    assert "`python -m tiny_model verify` checks the answers" in text
    bare = tiny()
    golden = replace(bare.rendered.golden, outputs=(), sampled=())
    bare = replace(bare, rendered=replace(bare.rendered, golden=golden))
    assert "verify WHEEL --against MODEL" in description_text(bare, IDENTITY, NEEDED, "embed")


@pytest.mark.parametrize("arch", SUPPORTED_ARCHES)
@pytest.mark.parametrize("capability", PRODUCTS)
def test_what_is_said_is_what_the_runtime_takes(arch: int, capability: int) -> None:
    device = CudaDevice.__new__(CudaDevice)
    device.name, (device._major, device._minor) = "cuda:0", divmod(capability, 10)
    target = Target("cuda", arch)
    if target.serves(capability):
        assert device.select([str(target)])[0] == str(target)
    else:
        with pytest.raises(DeviceError, match="the GPU is sm_"):
            device.select([str(target)])


def capabilities(lines: tuple[str, ...]) -> list[str]:
    return re.findall(r"(\d+\.\d) \(", " ".join(lines))


def test_the_default_targets_do_not_serve_a_b200_and_say_so() -> None:
    assert capabilities(runs_on(DEFAULT_TARGETS, None)) == ["8.0", "8.6", "8.9", "9.0", "12.0"]
    assert {"7.5", "10.0", "10.3", "12.1"} <= {*capabilities(not_on(DEFAULT_TARGETS, None))}
    assert "10.0 (B200)" in not_on(DEFAULT_TARGETS, None)[0]
    assert "machines without a GPU" in not_on(DEFAULT_TARGETS, None)


def test_ptx_is_told_apart_from_code() -> None:
    targets = parse_targets("sm_90+PTX")
    code, text, _ = runs_on(targets, None)
    assert capabilities((code,)) == ["9.0"]
    assert "from compute capability 8.9 on, with load(allow_jit=True)" in text
    assert capabilities(not_on(targets, None)) == ["7.0", "7.5", "8.0", "8.6"]


def test_processors_are_told_by_what_they_must_have() -> None:
    assert runs_on((CPU,), HOST) == (
        "x86-64 processors with AVX2 and FMA",
        "Linux with glibc 2.29 or newer, with Python 3.10 or newer",
    )
    assert not_on((CPU,), HOST) == ("GPUs", "Windows and macOS")
    assert "machines without a GPU" not in not_on((*DEFAULT_TARGETS, CPU), HOST)
    assert runs_on((INTERPRETER,), None) == ("Triton's interpreter alone, for tests",)


def test_only_packages_for_gpus_are_classified_so() -> None:
    assert any("CUDA" in one for one in classifiers(tiny()))
    alone = replace(tiny(), targets=(CPU,))
    assert not any("CUDA" in one for one in classifiers(alone))
