"""The examples of language models: their packages generate what transformers generates.

`tools/check_llm.py` compares all over 256 tokens; most of this is the one with both kinds of cache.
"""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from aotpack.importable import importable
from tools import check_llm

generate, sampling = check_llm.example("generate"), check_llm.example("sampling")
Choice, Slots, stream = generate.Choice, generate.Slots, generate.stream

TOKENS = 24
WARM = {"temperature": 1.5, "top_k": 40, "top_p": 0.9, "seed": 3}


@pytest.fixture(scope="module")
def site(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    return once("llm", lambda folder: check_llm.build("gemma3", folder)) / "tiny_gemma3"


@pytest.fixture(scope="module")
def greedy() -> list[list[int]]:
    return check_llm.reference("gemma3", check_llm.prompts(), TOKENS)


@pytest.fixture(scope="module")
def package(site: Path) -> Any:
    with importable(site):
        return importlib.import_module(site.name)


def collected(slots: Any, prompts: list[list[int]], **options: Any) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in prompts]
    for prompt, token in stream(slots, prompts, TOKENS, **options):
        found[prompt].append(token)
    return found


def test_tokens_are_those_of_transformers_in_a_process_without_torch(site, greedy):
    prompts = check_llm.prompts()
    batches = [prompts, prompts[:1], prompts[2:4]]
    asked = [{"prompts": batch, "tokens": TOKENS} for batch in batches]
    assert check_llm.generated(site, asked) == [greedy, greedy[:1], greedy[2:4]]


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_the_other_examples_generate_what_transformers_generates(name, tmp_path):
    prompts = check_llm.prompts()
    asked = [{"prompts": prompts, "tokens": TOKENS}]
    found = check_llm.generated(check_llm.build(name, tmp_path), asked)
    assert found == [check_llm.reference(name, prompts, TOKENS)]


def test_a_stop_token_ends_its_sequence_alone(package, greedy):
    stop = greedy[0][5]
    cut = [row[: row.index(stop) + 1] if stop in row else row for row in greedy]
    with package.load("cpu") as model:
        assert collected(Slots(model), check_llm.prompts(), stop=[stop]) == cut
    assert cut != greedy


def test_two_callers_have_a_state_each_and_errors_change_none(package, greedy):
    prompts = check_llm.prompts()
    with package.load("cpu") as one, package.load("cpu") as other:
        first, second = Slots(one), Slots(other)
        left, right = stream(first, prompts[:2], TOKENS), stream(second, prompts[2:4], TOKENS)
        found: list[list[int]] = [[] for _ in range(4)]
        for number, (mine, yours) in enumerate(zip(left, right, strict=True)):
            found[mine[0]].append(mine[1])
            found[2 + yours[0]].append(yours[1])
            if number == 9:
                with pytest.raises(
                    package.ArgumentError, match="argument 'ids' makes tokens 17 .* 1 to 16"
                ):
                    first.prefill(0, [1] * 17)
                with pytest.raises(package.ArgumentError, match="'choice' lacks 'temperature'"):
                    one.decode(np.zeros(8, np.int64), np.zeros(8, np.int64), {})
                with pytest.raises(ValueError, match=re.escape("slot 1 is full: the cache holds")):
                    second.prefill(1, [1] * 400)
        assert found == greedy[:4]


def test_drawn_tokens_depend_on_the_seed_and_not_on_the_batch(package, greedy):
    prompts = check_llm.prompts()
    with package.load("cpu") as model:
        slots = Slots(model)
        drawn = collected(slots, prompts, choice=Choice(**WARM))
        assert collected(slots, prompts[:3], choice=Choice(**WARM)) == drawn[:3]
        assert collected(slots, prompts, choice=Choice(**WARM | {"seed": 4}))[0] != drawn[0]
        assert collected(slots, prompts, choice=Choice(**WARM | {"top_k": 1})) == greedy
        assert collected(slots, prompts, choice=Choice(**WARM | {"top_p": 1e-6})) == greedy
    assert drawn != greedy


@pytest.mark.parametrize("wrong", [None, 0, 2])
def test_drafts_are_kept_as_far_as_greedy_choice_gives_them(package, greedy, wrong):
    prompt, wanted = check_llm.prompts()[0], greedy[0]
    with package.load("cpu") as model:
        slots = Slots(model)
        found = [slots.prefill(1, prompt)]
        while len(found) < TOKENS - 5:
            draft = wanted[len(found) : len(found) + 4]
            if wrong is not None:
                draft[wrong] = (draft[wrong] + 1) % 256
            new = slots.check(1, [found[-1], *draft])
            assert len(new) == (5 if wrong is None else wrong + 1)
            found += new
        assert found == wanted[: len(found)]
        with pytest.raises(ValueError, match="slot 1 is full"):
            slots.check(1, [1] * 400)


def told(monkeypatch: Any, capsys: Any, *words: str) -> str:
    """What the example prints about a mistake on its command line."""
    monkeypatch.setattr("sys.argv", ["generate.py", *words])
    with pytest.raises(SystemExit) as ended:
        generate.main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return str(line)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["1,2"] * 9, "9 prompts were given, .* has 8 slots; give up to 8 at once"),
        (["1,x"], "prompt '1,x' has 'x' for a token; numbers with commas between are accepted"),
        (["1,,2"], "prompt '1,,2' has '' for a token"),
        (["1," * 400 + "1"], "prompt 0 has 401 tokens; 1 to 319 are accepted"),
        (["1,2", "--tokens", "400"], "of 2 tokens and 400 new .* holds 319; ask for up to 318"),
        (["1,2", "--tokens", "0"], "0 tokens were asked for; 1 or more are accepted"),
        (["1,2", "--tokens", "-3"], "-3 tokens were asked for; 1 or more are accepted"),
        (["1", "2,256"], "prompt 1 has the token 256; the package has the tokens 0 to 255"),
        (["9" * 30], "prompt 0 has the token 9{30}; the package has the tokens 0 to 255"),
        ([""], "prompt '' has '' for a token; numbers with commas between are accepted"),
        (["1", "--stop", "7", "-3"], "stop has the token -3; the package has the tokens 0 to 255"),
        (["1", "--temperature", "-2"], "temperature is -2.0; accepted: 0 .greedy., or 1e-6 to 1e6"),
        (["1", "--temperature", "nan"], "temperature is nan; accepted: 0 .greedy., or"),
        (["1", "--temperature", "1e-40"], "temperature is 1e-40; accepted: 0 .greedy., or"),
        (["1", "--top-p", "2"], "top_p is 2.0; accepted: a share above 0 and up to 1 .all tokens"),
        (["1", "--top-p", "0"], "top_p is 0.0; accepted: a share above 0"),
        (["1", "--top-p", "nan"], "top_p is nan; accepted: a share above 0"),
        (["1", "--top-k", "-1"], "top_k is -1; accepted: 0 .all tokens. or how many of"),
        (["1", "--top-k", "9" * 20], "top_k is 9{20}; accepted: 0"),
        (["1", "--seed", "-5"], "seed is -5; accepted: 0 to 2..32 - 1"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(package, monkeypatch, capsys, words, message):
    assert re.search(message, told(monkeypatch, capsys, package.__name__, *words))


def test_the_ends_of_what_is_accepted_are_taken(package, monkeypatch, capsys):
    ends = {"temperature": "1e-6", "top-p": "1e-9", "top-k": 2**63 - 1, "seed": 2**32 - 1}
    options = [word for name, end in ends.items() for word in (f"--{name}", str(end))]
    words = [package.__name__, "0,255", "255", "--tokens", "2", *options, "--stop", "0", "255"]
    monkeypatch.setattr("sys.argv", ["generate.py", *words])
    generate.main()
    assert capsys.readouterr().out.startswith("0: ")


def test_another_module_than_a_package_is_refused_in_a_line(package, monkeypatch, capsys):
    message = "importing 'tiny_gema3': there is no module of this name; give the name of an instal"
    assert message in told(monkeypatch, capsys, "tiny_gema3", "1")
    assert "'json': it is no package that aotpack built" in told(monkeypatch, capsys, "json", "1")
    with package.load("cpu") as model, pytest.raises(ValueError, match="no methods prefill and"):
        generate.sequences(model.decode)


def test_prompts_that_have_no_place_are_refused_before_the_first_token(package):
    with package.load("cpu") as model:
        slots = Slots(model)
        with pytest.raises(ValueError, match="9 prompts were given, and the cache .* has 8 slots"):
            stream(slots, [[1]] * 9, TOKENS)
        with pytest.raises(ValueError, match="prompt 1 has 0 tokens; 1 to 319 are accepted"):
            stream(slots, [[1], []], TOKENS)
        assert not slots.lengths.any()


def draws(logits: torch.Tensor, choice: Any, count: int) -> torch.Tensor:
    """How often each token is drawn."""
    rows = torch.ones(count, dtype=torch.int64)
    found = sampling.sample(
        logits.expand(count, -1),
        torch.arange(count),
        rows * choice.temperature,
        rows * choice.top_k,
        rows * choice.top_p,
        rows * choice.seed,
    )
    return torch.bincount(found, minlength=logits.shape[-1]) / count


@pytest.mark.parametrize("top_k", [0, 7])
@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_draws_follow_the_odds_of_transformers(top_k, top_p):
    torch.manual_seed(0)
    logits = torch.randn(1, 50) * 2
    wanted = TemperatureLogitsWarper(1.3)(None, logits)
    if top_k:
        wanted = TopKLogitsWarper(top_k)(None, wanted)
    if top_p < 1:
        wanted = TopPLogitsWarper(top_p)(None, wanted)
    odds = wanted.softmax(-1)[0]
    found = draws(logits, Choice(1.3, top_k, top_p, seed=5), 20000)
    assert not found[odds == 0].any()
    assert (found - odds).abs().max() < 0.015


def test_a_slot_that_is_freed_holds_nothing_of_the_last_sequence(package, greedy):
    prompts = check_llm.prompts()
    with package.load("cpu") as model:
        slots = Slots(model)
        collected(slots, prompts[::-1])
        assert collected(slots, prompts) == greedy
