"""Texts of the example service: tokens become text piece by piece, and words stop it."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from .serving import texts

SAID = "naïve 東京 – two  blanks and 🙂 a sign"


@pytest.fixture
def file(tmp_path):
    """A tokenizer of bytes, as those of language models are."""
    words = {letter: n for n, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize("kind", ["bytes", "words"])
def test_pieces_are_whole_characters_and_make_the_text(file, kind):
    codec = texts.Bytes() if kind == "bytes" else texts.Words(str(file))
    tokens = codec.encode(SAID)
    assert len(tokens) == len(SAID.encode())
    decode, other = codec.decoder(), codec.decoder()
    pieces = [decode(token) for token in tokens]
    assert "".join(pieces) == SAID and "\ufffd" not in "".join(pieces)
    assert other(tokens[0]) == SAID[0]


def test_bytes_are_for_packages_that_have_no_other_tokens(file):
    assert isinstance(texts.codec_of(None, 256), texts.Bytes)
    assert isinstance(texts.codec_of(str(file), 257), texts.Words)
    with pytest.raises(ValueError, match="has 257 tokens, .* with --tokenizer tokenizer.json"):
        texts.codec_of(None, 257)


@pytest.mark.parametrize("size", [1, 2, 3, 50])
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], "one two three"),
        (["two"], "one "),
        (["three", "e t"], "on"),
        (["thread", "twi"], "one two three"),
        (["three!"], "one two three"),
        (["", "ee"], "one two thr"),
    ],
)
def test_a_text_passes_up_to_the_first_word_that_stops_it(words, wanted, size):
    until, text, found = texts.Until(words), "one two three", ""
    for start in range(0, len(text), size):
        found += until(text[start : start + size])
        if until.is_over:
            break
    assert found + until.rest() == wanted
    assert until.is_over == (wanted != text)
