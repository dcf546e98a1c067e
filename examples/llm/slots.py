"""Sequences in the slots of a package of ``decoder.py``: numpy and the package, no torch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

TEMPERATURES = "0 (greedy), or 1e-6 to 1e6"


@dataclass(frozen=True, slots=True)
class Choice:
    """How tokens are chosen: greedily, or drawn from a seed."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values for which there is no choice; NaN is in no range."""
        for name, is_right, accepted in (
            ("temperature", self.temperature == 0 or 1e-6 <= self.temperature <= 1e6, TEMPERATURES),
            ("top_k", 0 <= self.top_k < 2**63, "0 (all tokens) or how many of the likeliest"),
            ("top_p", 0 < self.top_p <= 1, "a share above 0 and up to 1 (all tokens)"),
            ("seed", 0 <= self.seed < 2**32, "0 to 2**32 - 1"),
        ):
            if not is_right:
                raise ValueError(f"{name} is {getattr(self, name)}; accepted: {accepted}")


GREEDY = Choice()
TYPES = {"temperature": np.float32, "top_k": np.int64, "top_p": np.float32, "seed": np.int64}


class Slots:
    """The sequences in the cache of one loaded package, and how long each is.

    One place of each slot stays free: a slot that has no part in a step writes there.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        stores = [array.shape for name, array in model.state.items() if name.startswith("keys_")]
        self.count = stores[0][0]
        self.capacity = max(shape[2] for shape in stores) - 1
        self.chunk, self.vocabulary = model.prefill.signature.sizes[0].high, vocabulary(model)
        self.lengths = np.zeros(self.count, np.int64)

    def prefill(self, slot: int, tokens: Sequence[int], choice: Choice = GREEDY) -> int:
        """Add one chunk to a slot; the token that follows it."""
        self._refuse_overflow(slot, len(tokens))
        start = self.lengths[[slot]]
        found = self.model.prefill(integers([tokens]), integers([slot]), start, columns([choice]))
        self.lengths[slot] += len(tokens)
        return int(found[0])

    def decode(self, tokens: Mapping[int, int], choices: Mapping[int, Choice]) -> dict[int, int]:
        """Add one token to each of some slots; the tokens that follow them."""
        for slot in tokens:
            self._refuse_overflow(slot, 1)
        ids = integers([tokens.get(slot, 0) for slot in range(self.count)])
        given = columns([choices.get(slot, GREEDY) for slot in range(self.count)])
        found = self.model.decode(ids, self.lengths, given)
        for slot in tokens:
            self.lengths[slot] += 1
        return {slot: int(found[slot]) for slot in tokens}

    def check(self, slot: int, tokens: Sequence[int]) -> list[int]:
        """Add the last token of a slot and as much of a draft behind it as greedy choice gives.

        Returns what it gives: the part of the draft that is right, and one token more.
        """
        self._refuse_overflow(slot, len(tokens))
        start = self.lengths[[slot]]
        checked = self.model.check(integers([tokens]), integers([slot]), start).tolist()
        found = accepted(tokens, checked)
        self.lengths[slot] += len(found)
        return found

    def reserve(self, slot: int, more: int) -> bool:
        """True: each slot has its own memory."""
        return True

    def free(self, slot: int) -> None:
        """Forget a sequence."""
        self.lengths[slot] = 0

    def _refuse_overflow(self, slot: int, more: int) -> None:
        if self.lengths[slot] + more > self.capacity:
            raise ValueError(
                f"slot {slot} is full: the cache holds {self.capacity} tokens of each, and "
                f"{self.lengths[slot] + more} are asked for; ask for fewer tokens, or build a "
                "package with longer slots"
            )


def vocabulary(model: Any) -> int:
    """How many tokens a package has: the rows of its table of embeddings."""
    for weight in model.manifest.weights:
        if weight.shape and any("embed_tokens.weight" in name for name in weight.names):
            return int(weight.shape[0])
    raise ValueError(
        f"{model!r} has no weight embed_tokens.weight; give a package that aotpack built of a "
        "model of examples/llm"
    )


def refuse_foreign(what: str, tokens: Iterable[int], vocabulary: int) -> None:
    """Refuse tokens that the package does not have: it would read others in their place."""
    foreign = next((token for token in tokens if not 0 <= token < vocabulary), None)
    if foreign is not None:
        raise ValueError(
            f"{what} has the token {foreign}; the package has the tokens 0 to {vocabulary - 1}: "
            "give those of its own tokenizer"
        )


def accepted(tokens: Sequence[int], found: list[int]) -> list[int]:
    """The part of a draft, ``tokens[1:]``, that greedy choice gives too, and one token more."""
    pairs = enumerate(zip(tokens[1:], found, strict=False))
    right = next((n for n, (drafted, chosen) in pairs if drafted != chosen), len(tokens) - 1)
    return found[: right + 1]


def integers(values: Sequence[Any]) -> np.ndarray:
    return np.array(values, np.int64)


def columns(choices: Sequence[Choice]) -> dict[str, np.ndarray]:
    """The choices as the package takes them: an array for each field."""
    return {
        field.name: np.array([getattr(choice, field.name) for choice in choices], TYPES[field.name])
        for field in fields(Choice)
    }
