"""What a page of markdown lists: sections, tables, links, words, long lines."""

import re
from collections.abc import Iterator

from .blocks import BLOCK

WIDTH = 120
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def prose(page: str) -> str:
    """A page without its blocks of code."""
    return BLOCK.sub("", page)


def words(text: str) -> int:
    """How many words there are; signs alone are none."""
    return sum(1 for word in text.split() if re.search(r"\w", word))


def long_lines(page: str, *, tables: bool = True) -> list[int]:
    """The numbers of lines that are too long; a URL may be, and a row unless ``tables`` count."""
    return [
        number
        for number, line in enumerate(page.splitlines(), 1)
        if len(line) > WIDTH and "://" not in line and (tables or not line.startswith("|"))
    ]


def sections(page: str) -> dict[str, str]:
    """The text below each heading, up to the next one of any level."""
    text = prose(page)
    found = list(_HEADING.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {match[1]: text[match.end() : end] for match, end in zip(found, ends, strict=True)}


def rows(section: str) -> list[tuple[str, ...]]:
    """The cells of every row of every table, heads left out."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    rules = [number for number, row in enumerate(cells) if set("".join(row)) == {"-"}]
    heads = {*rules, *(number - 1 for number in rules)}
    return [row for number, row in enumerate(cells) if number not in heads]


def named(cell: str) -> list[str]:
    """What stands between single backticks."""
    return re.findall(r"`([^`]+)`", cell)


def links(page: str) -> Iterator[tuple[str, str]]:
    """The file and the anchor of each link that stays in the repository."""
    for target in _LINK.findall(prose(page)):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield file, anchor


def anchors(page: str) -> set[str]:
    """What links may name behind a number sign."""
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in sections(page))
    return {re.sub(r"\s+", "-", heading.strip()) for heading in plain}
