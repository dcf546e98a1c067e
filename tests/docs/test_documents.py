"""The documents are short, their links lead somewhere, and the reference lists what there is."""

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import aotpack
from aotpack.cli import main
from aotpack.commands.verbs import VERBS
from aotpack.errors import AotpackError
from aotpack.runtime import Model, command, load
from aotpack.schedule import PASSES

from .blocks import blocks
from .tables import anchors, links, long_lines, named, prose, rows, sections, words

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README, REFERENCE = ROOT / "README.md", DOCS / "reference.md"
GUIDE = sorted((DOCS / "guide").glob("*.md"))
NARROW = [README, ROOT / "CONTRIBUTING.md", REFERENCE, *GUIDE]
LINKED = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LISTED = sections(REFERENCE.read_text())
PACKAGE_VERBS = ("info", "verify", "bench", "tune")


# --- length ------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    text = README.read_text()
    assert len(text.split()) <= 600 and long_lines(text) == []


@pytest.mark.parametrize("page", NARROW, ids=lambda page: page.stem)
def test_lines_are_short(page: Path) -> None:
    assert long_lines(page.read_text(), tables=False) == []


def test_a_long_line_is_found() -> None:
    row, url = f"| {'x' * 120} |", f"https://{'x' * 120}"
    page = f"short\n{'x' * 121}\n{row}\n{url}\n"
    assert long_lines(page) == [2, 3] and long_lines(page, tables=False) == [2]


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_a_page_of_the_guide_is_one_read_with_examples(page: Path) -> None:
    text = page.read_text()
    assert 120 <= words(prose(text)) <= 400
    assert any(block.is_run and block.language == "python" for block in blocks(text))


def test_words_are_counted_without_code_and_signs() -> None:
    assert words(prose("One | two\n\n```python\nthree = 3\n```\n\n- four\n")) == 3


# --- links -------------------------------------------------------------------------------------


def lost_links(page: Path) -> list[str]:
    """Links of a page that lead to no file or to no heading."""
    lost = []
    for file, anchor in links(page.read_text()):
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            lost.append(f"{file}#{anchor}")
    return lost


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    assert lost_links(page) == []


def test_a_lost_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# The head\n[a](#the-head) [b](#the-tail) [c](page.md#the-head) [d](lost.md)\n"
    )
    assert lost_links(page) == ["#the-tail", "lost.md#"]


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_every_page_of_the_guide_is_found_from_outside(page: Path) -> None:
    assert f"docs/guide/{page.name}" in [file for file, _ in links(README.read_text())]
    assert f": guide/{page.name}\n" in (ROOT / "mkdocs.yml").read_text()


def unreachable(root: Path) -> list[str]:
    """Pages of the site that are not in its navigation, and that no other page links to."""
    pages = {page: page.read_text() for page in sorted((root / "docs").rglob("*.md"))}
    linked = {
        (page.parent / file).resolve()
        for page, text in pages.items()
        for file, _ in links(text)
        if file and (page.parent / file).resolve() != page.resolve()
    }
    navigation = (root / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    names = {page: page.relative_to(root / "docs").as_posix() for page in pages}
    listed = set(re.findall(r": (\S+\.md)$", navigation, re.MULTILINE))
    return [n for page, n in names.items() if n not in listed and page.resolve() not in linked]


def test_every_page_is_found_from_the_site() -> None:
    assert unreachable(ROOT) == []


def test_a_page_that_nothing_leads_to_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("site_name: x\nnav:\n  - First: index.md\n")
    (tmp_path / "docs" / "index.md").write_text("[a](linked.md)\n")
    for name in ("linked", "lost"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"[itself]({name}.md)\n")
    assert unreachable(tmp_path) == ["lost.md"]


DUMPED = re.compile(r"\b03_(\d\d)_([a-z]\w*)")


def wrong_dumps(text: str) -> list[str]:
    """Files of passes that a text names, but that a dump does not have."""
    passes = {(f"{number:02}", one.name) for number, one in enumerate(PASSES, 1)}
    return ["_".join(found) for found in DUMPED.findall(text) if found not in passes]


def test_dumps_of_passes_are_named_as_they_are_written() -> None:
    files = [*LINKED, *(ROOT / "aotpack").rglob("*.py"), *(ROOT / "tools").glob("*.py")]
    texts = [file.read_text() for file in files]
    assert any(DUMPED.search(text) for text in texts)
    assert [wrong for text in texts for wrong in wrong_dumps(text)] == []


def test_a_dump_of_another_number_is_found() -> None:
    (number,) = (n for n, one in enumerate(PASSES, 1) if one.name == "fuse")
    text = f"03_{number:02}_fuse.txt, 03_{number + 1:02}_fuse.txt, 03_01_lost, 03_passes.txt"
    assert wrong_dumps(text) == [f"{number + 1:02}_fuse", "01_lost"]


# --- options -----------------------------------------------------------------------------------


def options(help_text: str) -> tuple[set[str], set[str]]:
    """The options that a help lists, and the values that they choose from."""
    lines = re.findall(r"^  (-\S.*?)(?:  .*)?$", help_text, re.MULTILINE)
    names = {name for line in lines for name in re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", line)}
    values = {
        v for line in lines for group in re.findall(r"{(.*?)}", line) for v in group.split(",")
    }
    return names - {"-h", "--help"}, values


Run = Callable[[list[str]], object]


def helped(run: Run, capsys: pytest.CaptureFixture[str], verb: str) -> str:
    """What a command line says to --help."""
    with pytest.raises(SystemExit, match="0"):
        run([verb, "--help"])
    return capsys.readouterr().out


def documented(section: str) -> tuple[set[str], set[str]]:
    """The options in the first cells of a section's tables, with those it refers to; its words."""
    texts = [section, *([LISTED["Tracing options"]] if "(#tracing-options)" in section else [])]
    first = [name for text in texts for row in rows(text) for name in named(row[0])]
    names = {name.split()[0] for name in first if name.startswith("-")}
    return names, {word for name in first for word in name.split()}


@pytest.mark.parametrize("verb", VERBS)
def test_the_reference_has_the_options_of_every_verb(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names, values = options(helped(main, capsys, verb))
    listed, terms = documented(LISTED[f"aotpack {verb}"])
    every, _ = documented(LISTED["Commands"])
    assert every == {"-h", "--help", "--traceback"}
    assert listed == names - every and values <= terms


def test_the_reference_has_the_options_of_a_package(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {row[0].strip("`"): row[2] for row in rows(LISTED["python -m PACKAGE"])}
    assert tuple(listed) == PACKAGE_VERBS
    for verb, cell in listed.items():
        text = helped(lambda argv: command.main("package/__main__.py", argv), capsys, verb)
        assert set(named(cell)) == options(text)[0]


HELP = """\
usage: x [-h] --not

options:
  -h, --help           show this
  -o DIR, --out DIR    a folder, with a --word
  --way {short,long}
"""
SECTION = """\
| option | |
|---|---|
| `-o DIR`, `--out DIR` | not `--way` |
| `--far one`, `two` | |
"""


def test_options_are_read_off_both_sides() -> None:
    assert options(HELP) == ({"-o", "--out", "--way"}, {"short", "long"})
    names, terms = documented(SECTION)
    assert names == {"-o", "--out", "--far"} and {"one", "two"} < terms


# --- Python ------------------------------------------------------------------------------------

FUNCTIONS = {
    "aotpack.build": aotpack.build,
    "aotpack.compile": aotpack.compile,
    "PACKAGE.load": load,
}


def keywords(section: str) -> set[str]:
    """The names in the first cells of a section's tables."""
    return {name for row in rows(section) for name in named(row[0])}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_reference_has_the_keywords_of_every_function(name: str) -> None:
    parameters = set(inspect.signature(FUNCTIONS[name]).parameters) - {"package"}
    assert keywords(LISTED[name]) == parameters


def test_the_reference_has_the_public_names() -> None:
    assert set(named(LISTED["Python"])) == {"aotpack", *aotpack.__all__}


def missing_attributes(section: str) -> list[str]:
    """Attributes of a loaded model that a section lists and that there are not."""
    source = "".join(map(inspect.getsource, Model.__mro__[:-1]))
    listed = re.findall(r"`model\.(\w+)", section)
    return [name for name in listed if not re.search(rf"def {name}\(|self\.{name}\b", source)]


def test_attributes_of_a_model_are_there() -> None:
    section = LISTED["A loaded model"]
    assert len(named(section)) > 8 and missing_attributes(section) == []
    assert missing_attributes("| `model.state` | `model.colour` |") == ["colour"]


# --- environment variables ---------------------------------------------------------------------


def variables(files: Iterable[Path]) -> set[str]:
    """The environment variables that modules name."""
    found = [re.findall(r'"((?:AOTPACK|OMP)_[A-Z_]+)"', file.read_text()) for file in files]
    return {name for names in found for name in names}


def test_the_reference_has_every_variable() -> None:
    read = variables((ROOT / "aotpack").rglob("*.py"))
    assert "AOTPACK_DUMP" in read and "AOTPACK_THREADS" in read
    assert {row[0].strip("`") for row in rows(LISTED["Environment variables"])} == read


def test_a_new_variable_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('x = os.environ.get("AOTPACK_NEW")  # AOTPACK_OLD\n')
    assert variables([tmp_path / "a.py"]) == {"AOTPACK_NEW"}


# --- errors ------------------------------------------------------------------------------------


def kinds(base: type[Exception]) -> set[str]:
    """The name of an error and of all below it that the project defines."""
    below = (kinds(kind) for kind in base.__subclasses__() if kind.__module__.startswith("aotpack"))
    return {base.__name__}.union(*below)


def test_the_reference_has_every_class_of_errors() -> None:
    assert {row[0].strip("`") for row in rows(LISTED["Errors"])} == kinds(AotpackError)


FILLED, END = "\0", "\1"


def texts(module: str) -> list[str]:
    """The texts in a module's source; what is filled in is a sign of its own."""
    return ["".join(_pieces(node)) for node in ast.walk(ast.parse(module))]


def _pieces(node: ast.AST) -> list[str]:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    constants = [part.value if isinstance(part, ast.Constant) else FILLED for part in parts]
    return [text for text in constants if isinstance(text, str)]


def unknown_texts(section: str, known: list[str]) -> list[str]:
    """Texts of errors that a section lists and nobody says; three dots stand for anything."""
    said = END.join(known)
    listed = [named(row[0])[0] for row in rows(section)]
    patterns = [f"[^{END}]*".join(map(re.escape, text.split("..."))) for text in listed]
    return [t for t, pattern in zip(listed, patterns, strict=True) if not re.search(pattern, said)]


def test_texts_of_errors_are_those_of_the_sources() -> None:
    known = [text for file in (ROOT / "aotpack").rglob("*.py") for text in texts(file.read_text())]
    listed = [section for name, section in LISTED.items() if name.startswith("Of ")]
    assert len(listed) == 5
    assert [text for section in listed for text in unknown_texts(section, known)] == []


def test_a_text_that_nobody_says_is_found() -> None:
    known = texts('raise Error(f"the size {x} is not " "known")\nraise Error("other")\n')
    section = "| text |\n|---|\n| `size ... is not known` |\n| `the size is` |\n| `other` |\n"
    assert unknown_texts(section, known) == ["the size is"]
