"""Every example of the guide and of the README runs."""

import os
from pathlib import Path

import pytest

from .blocks import Block, blocks, unused_files
from .examples import commands, run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
EXEMPT = {"README.md": 1}  # the two commands that make whole environments


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    assert run_page(page.read_text(), page.stem, tmp_path) > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_few_examples_are_exempt_and_all_files_are_used(page: Path) -> None:
    text = page.read_text()
    exempt = [block for block in blocks(text) if block.words]
    assert len(exempt) == EXEMPT.get(page.name, 0)
    assert unused_files(text) == []


def test_the_readme_begins_with_two_commands() -> None:
    (block,) = (block for block in blocks(PAGES[0].read_text()) if block.words)
    programs = [program for program, *_ in commands(block.text)]
    assert programs == ["tools/quickstart", ".ci/run"]
    assert all(os.access(ROOT / program, os.X_OK) for program in programs)


FENCE = "```"
BROKEN = f"{FENCE}python\nx = 1\n{FENCE}\n\n{FENCE}python\nassert x == 2\n{FENCE}\n"


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (BROKEN, AssertionError),
        (f"{FENCE}python\nimport nothing_of_this_name\n{FENCE}\n", ModuleNotFoundError),
        (f"{FENCE}sh\naotpack doctor\naotpack inspect lost.whl\n{FENCE}\n", AssertionError),
        (f"{FENCE}sh\npython -c 'raise SystemExit(3)'\n{FENCE}\n", AssertionError),
        (f"{FENCE}sh\npip install dist/lost.whl\n{FENCE}\n", ValueError),
        (f"{FENCE}sh\nls\n{FENCE}\n", ValueError),
        (f"{FENCE}pyhton\nx = 1\n{FENCE}\n", ValueError),
        (f"{FENCE}python skip\nx = 1\n{FENCE}\n", ValueError),
    ],
)
def test_an_example_that_fails_is_seen(page: str, error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        run_page(page, "broken", tmp_path)


DRAWN = f"""
{FENCE}python
# drawn.py
import torch

SEED
model = torch.nn.Linear(2, 1)
example_inputs = (torch.ones(1, 2),)
with open("weights", "a") as file:
    print(model.weight.tolist(), file=file)
{FENCE}
{FENCE}sh
aotpack show drawn.py --stage traced
{FENCE}
{FENCE}python
import drawn

with open("weights") as file:
    first, second = file
assert first == second
{FENCE}
"""


def test_a_file_is_drawn_anew_where_it_is_imported_after_a_command(tmp_path: Path) -> None:
    for seed, name in ("torch.manual_seed(3)", "seeded"), ("", "drawn"):
        (folder := tmp_path / name).mkdir()
        page = DRAWN.replace("SEED", seed)
        if seed:
            assert run_page(page, name, folder) == 3
        else:
            with pytest.raises(AssertionError):
                run_page(page, name, folder)


def test_blocks_of_a_page_share_names_and_the_folder(tmp_path: Path) -> None:
    page = (
        f"{FENCE}python\n# part.py\nfour = 4\n{FENCE}\n"
        f"{FENCE}python\nfrom part import four\n{FENCE}\n"
        f"{FENCE}python no-run\nfour = 5\n{FENCE}\n"
        f"{FENCE}text\nfour = 6\n{FENCE}\n"
        f"{FENCE}python\nassert four == 4\n{FENCE}\n"
        f"{FENCE}sh\nKEY=7 python -c \"import os; os.environ['KEY']\"  # comment\n{FENCE}\n"
    )
    assert run_page(page, "shared", tmp_path) == 4
    assert blocks(page)[2] == Block("python", ("no-run",), "four = 5\n", 9)


def test_a_file_that_nothing_uses_is_found() -> None:
    file = f"{FENCE}python\n# service.py\nx = 1\n{FENCE}\n"
    assert unused_files(file) == ["service.py"]
    assert unused_files(f"{file}{FENCE}sh\npython service.py\n{FENCE}\n") == []
    assert unused_files(f"{FENCE}sh\npython service.py\n{FENCE}\n{file}") == ["service.py"]
