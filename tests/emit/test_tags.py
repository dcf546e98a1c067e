"""The platform tag and the requirements of wheels with code for processors."""

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from aotpack.emit import emit
from aotpack.emit.tags import platform_tag, requirements
from aotpack.stages import Binary, HostBuild
from aotpack.target import CPU

from .builds import IDENTITY, tiny


@pytest.mark.parametrize(
    ("glibc", "tag"),
    [
        ((2, 29), "manylinux_2_29_x86_64"),
        ((2, 4), "manylinux_2_17_x86_64"),
        (None, "linux_x86_64"),
    ],
)
def test_the_tag_is_what_the_symbols_ask_for(glibc: tuple[int, int] | None, tag: str) -> None:
    assert platform_tag(HostBuild("x86_64", "x86-64-v3", glibc)) == tag


def test_without_code_for_processors_a_wheel_is_for_any_platform() -> None:
    assert platform_tag(None) == "any"


def test_only_gpus_need_the_driver_s_bindings() -> None:
    assert requirements(("cpu",)) == ("numpy",)
    assert requirements(("sm_80", "cpu")) == ("cuda-bindings", "numpy")


def test_a_wheel_for_processors(tmp_path: Path) -> None:
    build = tiny()
    code = Binary("k1", str(CPU), "k1", b"\x7fELF", "so", 1, 1, 0, 0, 1, 0, 0)
    kernels = tuple(replace(k, language="c") for k in build.rendered.kernels)
    rendered = replace(build.rendered, kernels=kernels, host_file="int x;\n")
    binaries = (code, replace(code, kernel="k2", symbol="k2"))
    host = HostBuild("x86_64", "x86-64-v3", (2, 17))
    wheel = emit(
        replace(build, rendered=rendered, targets=(CPU,), binaries=binaries, host=host),
        IDENTITY,
        tmp_path,
    ).wheel
    assert wheel.name == "tiny_model-1.0rc1-py3-none-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        facts = archive.read("tiny_model-1.0rc1.dist-info/WHEEL").decode()
        metadata = archive.read("tiny_model-1.0rc1.dist-info/METADATA").decode()
        source = archive.read("tiny_model/kernels/source/kernels.c")
    assert "tiny_model/kernels/cpu/kernels.so" in names
    assert len([name for name in names if "/kernels/" in name]) == 2
    assert "Tag: py3-none-manylinux_2_17_x86_64" in facts and "Root-Is-Purelib: false" in facts
    assert "Requires-Dist: numpy" in metadata and "cuda" not in metadata
    assert source == b"int x;\n"
