"""The files of a folder against those of the build."""

import base64
import hashlib
import os
import py_compile
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aotpack.runtime.errors import PackageError
from aotpack.runtime.files.inventory import differences
from aotpack.runtime.files.sums import read_sums

SIDE = frozenset({"side.safetensors"})


def found(package: Path) -> list[str]:
    return differences(package, "demo-0.1.0", SIDE)


def bytecode(package: Path, text: str) -> None:
    """Bytecode of another text, with the facts of the source."""
    source = package / "_runtime" / "plan.py"
    own, facts = source.read_bytes(), source.stat()
    source.write_text(text)
    source.write_bytes(source.read_bytes().ljust(len(own)))
    os.utime(source, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    py_compile.compile(str(source), doraise=True)
    source.write_bytes(own)
    os.utime(source, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def test_what_users_and_python_add_is_no_difference(package: Path) -> None:
    py_compile.compile(str(package / "__init__.py"), doraise=True)
    py_compile.compile(str(package / "_runtime" / "plan.py"), doraise=True, optimize=2)
    (package / "side.safetensors").touch()
    assert found(package) == []
    bytecode(package, "spoilt = 1")
    os.utime(package / "_runtime" / "plan.py", (0, 0))  # its bytecode is not run then
    assert found(package) == []


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda p: (p / "wrapper.py").write_text("x"), "wrapper.py is changed"),
        (lambda p: (p / "golden.safetensors").unlink(), "golden.safetensors is missing"),
        (lambda p: (p / "sitecustomize.py").touch(), "sitecustomize.py is not of the package"),
        (lambda p: (p / "a").symlink_to("/"), "a is not of the package"),
        (
            lambda p: bytecode(p, "planted = 1"),
            "_runtime/__pycache__/plan.{tag}.pyc is not the bytecode of plan.py",
        ),
        (
            lambda p: py_compile.compile(str(p / "wrapper.py"), str(p / "__pycache__/lost.pyc")),
            "__pycache__/lost.pyc is not of the package",
        ),
    ],
)
def test_what_differs_is_named(
    package: Path, change: Callable[[Path], object], difference: str
) -> None:
    change(package)
    assert found(package) == [difference.format(tag=sys.implementation.cache_tag)]


def record(package: Path, **changed: bytes) -> Path:
    """RECORD as an installer writes it, with the hashes of other contents for some files."""
    info = package.parent / "demo-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: demo")
    contents = {f"demo/{name}": (package / name).read_bytes() for name in read_sums(package)}
    contents |= {"demo-0.1.0.dist-info/METADATA": b"Name: demo", **changed}
    lines = ["demo-0.1.0.dist-info/RECORD,,", "../bin/demo,sha256=x,1"]
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(content)}")
    (info / "RECORD").write_text("\n".join(lines))
    return info


def test_the_record_of_the_installer(package: Path) -> None:
    info = record(package)
    assert found(package) == []
    (info / "METADATA").write_text("Name: other")
    assert found(package) == ["demo-0.1.0.dist-info/METADATA is not what RECORD says"]


def test_a_file_that_the_record_has_otherwise_or_not_at_all(package: Path) -> None:
    info = record(package, **{"demo/wrapper.py": b"other"})
    assert found(package) == ["demo/wrapper.py is not what RECORD says"]
    lines = [line for line in (info / "RECORD").read_text().splitlines() if "wrapper" not in line]
    (info / "RECORD").write_text("\n".join(lines))
    assert found(package) == ["wrapper.py is not in RECORD"]


@pytest.mark.parametrize("text", ["a,b", 'a,"' + "b" * 200_000])
def test_a_record_that_is_none_says_what_to_do(package: Path, text: str) -> None:
    (record(package) / "RECORD").write_text(text)
    with pytest.raises(PackageError, match=r"RECORD.*\. Reinstall the package\.$"):
        found(package)
