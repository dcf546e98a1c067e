"""A cache of pages: tokens are those of transformers, and pages go from one sequence to others."""

import importlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aotpack.importable import importable
from tools import check_llm

from .serving import engines, generate, settled

pool = importlib.import_module("pool")
TOKENS = 24


@pytest.fixture(scope="module")
def site(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    built = once("paged", lambda folder: check_llm.build("llama_paged", folder))
    return built / "tiny_llama_paged"


@pytest.fixture(scope="module")
def greedy() -> list[list[int]]:
    return check_llm.reference("llama_paged", check_llm.prompts(), TOKENS)


@pytest.fixture
def cache(site: Path) -> Iterator[Any]:
    with importable(site):
        package = importlib.import_module(site.name)
    with package.load("cpu") as model:
        yield generate.sequences(model)


def collected(cache: Any, prompts: list[list[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in prompts]
    for prompt, token in generate.stream(cache, prompts, TOKENS):
        found[prompt].append(token)
    return found


def test_tokens_are_those_of_transformers_in_a_process_without_torch(site, greedy):
    prompts = check_llm.prompts()
    batches = [prompts, prompts[:1], prompts[2:4]]
    asked = [{"prompts": batch, "tokens": TOKENS} for batch in batches]
    assert check_llm.generated(site, asked) == [greedy, greedy[:1], greedy[2:4]]
    assert len({tuple(row) for row in greedy}) == len(greedy)


def test_pages_follow_the_lengths_and_go_to_others(cache, greedy):
    prompts = check_llm.prompts()
    assert isinstance(cache, pool.Pool)
    assert collected(cache, prompts[::-1]) == greedy[::-1]
    for slot, length in cache.lengths.items():
        assert len(cache.tables[slot]) == -(-length // cache.page)
    first = {slot: [*table] for slot, table in cache.tables.items()}
    assert collected(cache, prompts) == greedy
    held = [page for table in cache.tables.values() for page in table]
    assert len({*held}) == len(held) and {*held} & {*first[0]}
    for slot in range(cache.count):
        cache.free(slot)
    assert sorted(cache.unused) == [*range(cache.pages)]


def test_drafts_are_kept_as_far_as_greedy_choice_gives_them(cache, greedy):
    prompt, wanted = check_llm.prompts()[0], greedy[0]
    found = [cache.prefill(3, prompt)]
    while len(found) < TOKENS - 5:
        draft = wanted[len(found) : len(found) + 4]
        draft[2] = (draft[2] + 1) % 256
        new = cache.check(3, [found[-1], *draft])
        assert len(new) == 3
        found += new
    assert found == wanted[: len(found)]


def test_what_does_not_fit_is_refused(cache):
    with pytest.raises(ValueError, match="sequence 1 is full: it holds 320 tokens"):
        cache.prefill(1, [1] * 321)
    cache.unused = cache.unused[:1]
    cache.prefill(1, [1] * 16)
    assert not cache.reserve(2, 1) and cache.reserve(1, 0)
    with pytest.raises(pool.OutOfPages, match="1 tokens of sequence 1, .* 0 pages left of 160;"):
        cache.decode({1: 5}, {})
    cache.free(1)
    assert cache.reserve(2, 16)


def test_sequences_that_need_more_pages_than_there_are_are_refused_at_once(cache):
    prompts = check_llm.prompts()
    generate.check(cache, prompts, 256)  # as `tools/check_llm.py` asks by default
    collected(cache, prompts[:2])
    generate.check(cache, prompts, 256)  # whose slots are freed first
    for slot in range(8, 15):
        cache.reserve(slot, 48)
    asked = r"8 prompts of 119 tokens in all and 256 new .* need 139 pages of 16 .* there are 139;"
    generate.check(cache, prompts, 256)
    cache.reserve(15, 1)
    with pytest.raises(ValueError, match=asked.replace("are 139;", "are 138; ask for fewer")):
        generate.stream(cache, prompts, 256)
    assert cache.lengths[0] > 0  # nothing ran
    with pytest.raises(ValueError, match="of 37 tokens and 285 .* a slot .* holds 320; .* to 284"):
        generate.check(cache, prompts, 285)


def served(cache: Any, prompts: list[list[int]], tokens: int = TOKENS) -> tuple[Any, list[Any]]:
    """The engine after it has ended, and the tokens of each request."""
    found: list[list[int]] = [[] for _ in prompts]
    ended = [threading.Event() for _ in prompts]

    def listener(number: int) -> Callable[[int | None, str], None]:
        def hear(token: int | None, reason: str) -> None:
            if token is None:
                ended[number].set()
            else:
                found[number].append(token)

        return hear

    engine = engines.Engine(cache, most_waiting=len(prompts))
    for number, prompt in enumerate(prompts):
        engine.submit(engines.Request(prompt, tokens, listener(number)))
    assert all(one.wait(60) for one in ended) and settled(engine)
    engine.close()
    return engine, found


def test_requests_wait_for_pages_and_give_them_back(cache, greedy):
    prompts, wanted = check_llm.prompts() * 3, greedy * 3
    engine, found = served(cache, prompts)
    assert found == wanted and engine.put_back == 0 and engine.ended == {"length": 24}
    assert len(cache.unused) == cache.pages
    cache.unused = cache.unused[:7]  # two sequences of 60 tokens never fit together
    engine, found = served(cache, prompts)
    assert found == wanted and engine.put_back > 0 and engine.ended == {"length": 24}
    assert len(cache.unused) == 7


def test_a_sequence_alone_may_take_all_pages(cache):
    cache.pages, cache.unused, cache.capacity = 4, cache.unused[:4], 64
    prompts = check_llm.prompts((40, 33, 50))
    engine, found = served(cache, prompts, tokens=15)
    assert [len(row) for row in found] == [15, 15, 15]
    with pytest.raises(ValueError, match="40 tokens of prompt and 26 more do not fit"):
        engine.submit(engines.Request(prompts[0], 26, print))
