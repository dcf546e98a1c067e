"""Texts and tokens: bytes, or a tokenizer's; where a text stops."""

import codecs
import importlib
from collections.abc import Callable, Sequence
from typing import Protocol

Decode = Callable[[int], str]
"""Text as it becomes whole, token by token."""


class Codec(Protocol):
    """Text to tokens and back."""

    def encode(self, text: str) -> list[int]: ...
    def decoder(self) -> Decode: ...


class Bytes:
    """Tokens are bytes of UTF-8."""

    def encode(self, text: str) -> list[int]:
        return [*text.encode("utf-8", "replace")]

    def decoder(self) -> Decode:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return lambda token: decoder.decode(bytes([token]))


class Words:
    """The tokens of a tokenizer.json."""

    def __init__(self, file: str) -> None:
        self.tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(file)
        self.streams = importlib.import_module("tokenizers.decoders")

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text).ids)

    def decoder(self) -> Decode:
        stream = self.streams.DecodeStream(skip_special_tokens=True)
        return lambda token: stream.step(self.tokenizer, token) or ""


def codec_of(tokenizer: str | None, vocabulary: int) -> Codec:
    """That of a tokenizer.json, or bytes for a package that has no other tokens."""
    if tokenizer:
        return Words(tokenizer)
    if vocabulary > 256:
        raise ValueError(
            f"the package has {vocabulary} tokens, which are more than bytes; give its model's "
            "tokenizer with --tokenizer tokenizer.json"
        )
    return Bytes()


class Until:
    """Passes text on up to the first of some words; what may begin one is held back."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words, self.held, self.is_over = [word for word in words if word], "", False

    def __call__(self, text: str) -> str:
        """The text that is sure to stand in front of all words."""
        self.held += text
        places = [place for word in self.words if (place := self.held.find(word)) >= 0]
        if places:
            self.is_over = True
            return self._pass(min(places))
        lengths = range(min(len(self.held), max(map(len, self.words), default=1) - 1), 0, -1)
        begun = (n for n in lengths if any(word.startswith(self.held[-n:]) for word in self.words))
        return self._pass(len(self.held) - next(begun, 0))

    def rest(self) -> str:
        """What is held back, when no more text comes."""
        return "" if self.is_over else self._pass(len(self.held))

    def _pass(self, count: int) -> str:
        text, self.held = self.held[:count], self.held[count:]
        return text
