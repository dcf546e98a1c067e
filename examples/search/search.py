"""Find texts with a package of ``encoders.py``: numpy and the package, no torch.

python examples/search/search.py tiny_search "how do wheels work" docs/*.md --best 3

All texts are embedded once. The ones whose embeddings are nearest to the question's are candidates,
and each candidate is scored beside the question. Bytes are tokens.
"""

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

BEGIN, BETWEEN, PAD = 256, 257, 258


class Searcher:
    """Texts and their embeddings by one loaded package."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.most, self.longest = (size.high for size in model.embed.signature.sizes)
        self.texts: list[str] = []
        self.vectors = np.empty((0, 0), np.float32)

    def add(self, texts: Sequence[str]) -> None:
        """Embed texts; only as much of each as the package takes."""
        new = self.embeddings(texts)
        self.texts += texts
        self.vectors = np.concatenate([self.vectors, new]) if len(self.vectors) else new

    def embeddings(self, texts: Sequence[str]) -> np.ndarray:
        """A row for each text."""
        rows = [[BEGIN, *text.encode()[: self.longest - 1]] for text in texts]
        parts = [self.model.embed(*padded(part)) for part in batches(rows, self.most)]
        return np.concatenate(parts)

    def candidates(self, question: str, count: int) -> list[int]:
        """The texts whose embeddings are nearest to the question's, the nearest first."""
        nearness = self.vectors @ self.embeddings([question])[0]
        return np.argsort(-nearness, kind="stable")[:count].tolist()  # type: ignore[no-any-return]

    def scores(self, question: str, texts: Sequence[str]) -> np.ndarray:
        """How well each text answers a question."""
        first = [BEGIN, *question.encode()[: self.longest // 2], BETWEEN]
        rows = [[*first, *text.encode()[: self.longest - len(first)]] for text in texts]
        found = []
        for part in batches(rows, self.most):
            ids, mask = padded(part)
            kinds = mask * (np.arange(ids.shape[1]) >= len(first))
            found.append(self.model.score(ids, mask, kinds))
        return np.concatenate(found)

    def find(self, question: str, best: int, candidates: int = 32) -> list[tuple[float, str]]:
        """The best texts with their scores."""
        near = [self.texts[number] for number in self.candidates(question, candidates)]
        scored = zip(self.scores(question, near).tolist(), near, strict=True)
        return sorted(scored, reverse=True)[:best]


def batches(rows: Sequence[Any], most: int) -> list[Sequence[Any]]:
    return [rows[start : start + most] for start in range(0, len(rows), most)]


def padded(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of unequal lengths as ids and mask."""
    longest = max(map(len, rows))
    ids = np.array([[*row, *[PAD] * (longest - len(row))] for row in rows], np.int64)
    return ids, (ids != PAD).astype(np.int64)


def main() -> None:
    """Print the best paragraphs of some files."""
    parser = argparse.ArgumentParser(description="find paragraphs with an installed package")
    parser.add_argument("package")
    parser.add_argument("question")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--best", type=int, default=3)
    given = parser.parse_args()
    paragraphs = [one for file in given.files for one in file.read_text().split("\n\n") if one]
    with importlib.import_module(given.package).load() as model:
        searcher = Searcher(model)
        searcher.add(paragraphs)
        for score, text in searcher.find(given.question, given.best):
            print(f"{score:.3f}  {text[:72]!r}")


if __name__ == "__main__":
    main()
