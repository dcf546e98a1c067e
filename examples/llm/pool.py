"""Sequences in a pool of pages, over a package of ``paged.py``: numpy and the package, no torch.

The tables of pages are kept here: a sequence takes a page when its last one is full, and its pages
go to others when it is freed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from slots import GREEDY, Choice, accepted, columns, integers, vocabulary


class OutOfPages(Exception):
    """The sequences of others hold the pages that one needs."""


class Pool:
    """The sequences of one loaded package by their numbers, ``count`` at most."""

    def __init__(self, model: Any) -> None:
        self.model = model
        highest = {size.name: size.high for size in model.decode.signature.sizes}
        self.pages, self.page = next(iter(model.state.values())).shape[:2]
        self.count = highest["batch"]
        self.chunk, self.vocabulary = model.prefill.signature.sizes[0].high, vocabulary(model)
        self.capacity = min(highest["blocks"], self.pages) * self.page
        self.unused = [*reversed(range(self.pages))]
        self.tables: dict[int, list[int]] = {slot: [] for slot in range(self.count)}
        self.lengths = dict.fromkeys(self.tables, 0)

    def reserve(self, slot: int, more: int) -> bool:
        """Take the pages that ``more`` tokens of a sequence need; False if too few are unused."""
        table = self.tables[slot]
        needed = -(-(self.lengths[slot] + more) // self.page) - len(table)
        if needed > len(self.unused):
            return False
        table.extend(self.unused.pop() for _ in range(needed))
        return True

    def free(self, slot: int) -> None:
        """Forget a sequence; its pages are unused."""
        self.unused.extend(reversed(self.tables[slot]))
        self.tables[slot], self.lengths[slot] = [], 0

    def prefill(self, slot: int, tokens: Sequence[int], choice: Choice = GREEDY) -> int:
        """Add one chunk to a sequence; the token that follows it."""
        given = self._places([slot], len(tokens))
        found = self.model.prefill(integers([tokens]), *given, columns([choice]))
        self.lengths[slot] += len(tokens)
        return int(found[0])

    def decode(self, tokens: Mapping[int, int], choices: Mapping[int, Choice]) -> dict[int, int]:
        """Add one token to each of some sequences; the tokens that follow them."""
        slots = [*tokens]
        given = self._places(slots, 1)
        chosen = columns([choices.get(slot, GREEDY) for slot in slots])
        found = self.model.decode(integers([*tokens.values()]), *given, chosen)
        for slot in slots:
            self.lengths[slot] += 1
        return dict(zip(slots, found.tolist(), strict=True))

    def check(self, slot: int, tokens: Sequence[int]) -> list[int]:
        """Add the last token of a sequence and as much of a draft as greedy choice gives.

        Returns what it gives: the part of the draft that is right, and one token more.
        """
        given = self._places([slot], len(tokens))
        found = accepted(tokens, self.model.check(integers([tokens]), *given).tolist())
        self.lengths[slot] += len(found)
        return found

    def _places(self, slots: Sequence[int], more: int) -> tuple[Any, Any]:
        """The tables of some sequences, as long as the longest one, and where each goes on."""
        for slot in slots:
            if self.lengths[slot] + more > self.capacity:
                raise ValueError(
                    f"sequence {slot} is full: it holds {self.capacity} tokens, and "
                    f"{self.lengths[slot] + more} are asked for; ask for fewer tokens, or build a "
                    "package with more pages"
                )
            if not self.reserve(slot, more):
                raise OutOfPages(
                    f"{more} tokens of sequence {slot}, which holds {self.lengths[slot]}, need "
                    f"more than the {len(self.unused)} pages left of {self.pages}; free a "
                    "sequence, ask for fewer tokens, or build a package with more pages"
                )
        longest = max(len(self.tables[slot]) for slot in slots)
        tables = [self.tables[slot] + [0] * (longest - len(self.tables[slot])) for slot in slots]
        return integers(tables), integers([self.lengths[slot] for slot in slots])
