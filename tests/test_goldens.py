"""Every golden text has a test and every golden test its text; a change or a loss is an error."""

from pathlib import Path

import pytest

from tests.golden_texts import check_golden, golden_faults, golden_file

TESTS = Path(__file__).parent
ONE = "def test_loop(golden):\n    golden('x', 'py')\n"


def tree(folder: Path, *files: str) -> Path:
    """Tests with one golden test, and these golden files."""
    for name, text in {"render/test_x.py": ONE, **dict.fromkeys(files, "")}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_texts_and_tests_belong_together(tmp_path: Path) -> None:
    assert golden_faults(TESTS) == []
    assert golden_faults(tree(tmp_path, "golden/render/loop.c")) == []


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        (("golden/render/loop.py", "golden/render/old.py"), "golden/render/old.py has no test"),
        (("golden/render/loop.py", "golden/ir/loop.ir"), "golden/ir/loop.ir has no test"),
        ((), r"golden/render/loop.* is missing: run pytest --update-golden"),
    ],
)
def test_an_orphan_and_a_missing_text_are_found(
    tmp_path: Path, files: tuple[str, ...], fault: str
) -> None:
    (found,) = golden_faults(tree(tmp_path, *files))
    assert found.startswith(fault)


def test_a_text_is_written_when_asked_for_and_compared_otherwise(tmp_path: Path) -> None:
    path = golden_file(tmp_path, tmp_path / "render" / "c" / "test_x.py", "test_loop", "c")
    assert path == tmp_path / "golden" / "render" / "loop.c"
    with pytest.raises(pytest.fail.Exception, match=r"loop.c is missing: run pytest --update"):
        check_golden(path, "a\n", is_update=False)
    check_golden(path, "a\n", is_update=True)
    check_golden(path, "a\n", is_update=False)
    with pytest.raises(pytest.fail.Exception, match=r"(?s)-a\n\+b\nIf this is meant: run pytest"):
        check_golden(path, "b\n", is_update=False)
    assert path.read_text() == "a\n"
