"""Every module of the stages that write and run kernels has a test of its name beside it."""

from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parent
STAGES = ("render", "runtime")
WITHOUT = {
    "render/contexts.py": "dataclasses alone",
    "runtime/bound.py": "dataclasses, made and used by prepare alone",
    "render/c/contexts.py": "dataclasses alone",
    "render/triton/attention_contexts.py": "dataclasses alone",
    "render/triton/contexts.py": "dataclasses alone",
    "render/triton/loops/turns_contexts.py": "dataclasses alone",
    "render/emit/language.py": "dataclasses alone",
    "render/c/reserved.py": "one value, which is empty",
    "render/emit/dialect.py": "a protocol; its two dialects have tests",
}


def twin_of(module: Path) -> Path:
    """The test of a module, in the same folder of the tests."""
    return module.with_name(f"test_{module.name}")


def modules_without_twins(source: Path, tests: Path, without: Mapping[str, str]) -> list[str]:
    """Modules that have no test of their name, and exceptions that are none."""
    modules = {
        path.relative_to(source)
        for stage in STAGES
        for path in (source / stage).rglob("*.py")
        if path.name != "__init__.py"
    }
    alone = {str(one) for one in modules if not (tests / twin_of(one)).exists()}
    return sorted(alone ^ set(without))


def test_every_module_has_a_test_of_its_name() -> None:
    assert modules_without_twins(TESTS.parent / "aotpack", TESTS, WITHOUT) == []


def test_a_module_alone_and_an_exception_that_is_none_are_found(tmp_path: Path) -> None:
    for name in ("aotpack/render/c/loops.py", "aotpack/render/c/__init__.py", "aotpack/ir/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    twin = tmp_path / "tests" / "render" / "c" / "test_loops.py"
    found = (tmp_path / "aotpack", tmp_path / "tests")
    assert modules_without_twins(*found, {}) == ["render/c/loops.py"]
    assert modules_without_twins(*found, {"render/c/loops.py": "a reason"}) == []
    twin.parent.mkdir(parents=True)
    twin.touch()
    assert modules_without_twins(*found, {}) == []
    assert modules_without_twins(*found, {"render/c/loops.py": ""}) == ["render/c/loops.py"]
