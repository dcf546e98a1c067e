"""Blocks of code in a page of markdown: what is run, what is shown, what is exempt."""

import re
from dataclasses import dataclass

RUN = ("python", "sh")
SHOWN = ("text", "dockerfile")
NO_RUN = "no-run"

BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.py)\n")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the words behind it, its text and where that begins."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int

    @property
    def is_run(self) -> bool:
        """True for code that no word exempts."""
        return self.language in RUN and NO_RUN not in self.words

    @property
    def file(self) -> str | None:
        """The file that the block is, as its first line says."""
        match = _FILE.match(self.text) if self.language == "python" else None
        return match[1] if match else None


def blocks(page: str) -> tuple[Block, ...]:
    """The blocks of a page in order; ValueError for one that nobody knows how to read."""
    found = []
    for match in BLOCK.finditer(page):
        language, *words = match["info"].split() or [""]
        line = page.count("\n", 0, match.start("text")) + 1
        if language not in RUN + SHOWN or not set(words) <= {NO_RUN}:
            raise ValueError(
                f"line {line - 1}: a block is called {match['info']!r}; accepted are "
                f"{', '.join(RUN + SHOWN)}, and {NO_RUN} behind them"
            )
        found.append(Block(language, tuple(words), match["text"], line))
    return tuple(found)


def unused_files(page: str) -> list[str]:
    """Files that a page writes and no later block imports or names: they would run nowhere."""
    found = [block for block in blocks(page) if block.is_run]
    return [
        block.file
        for number, block in enumerate(found)
        if block.file and not _names(found[number + 1 :], block.file)
    ]


def _names(later: list[Block], file: str) -> bool:
    used = re.compile(rf"\b{re.escape(file)}\b|\b(?:from|import) {re.escape(file[:-3])}\b")
    return any(used.search(block.text) for block in later)
