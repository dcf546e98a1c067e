"""Generation with a package of ``decoder.py`` or ``paged.py``: numpy and the package, no torch.

python examples/llm/generate.py tiny_llama --tokens 24 3,1,4,1,5 9,2,6
"""

import argparse
import importlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from typing import Any

from pool import Pool
from slots import GREEDY, Choice, Slots


def sequences(model: Any) -> Slots | Pool:
    """The cache of a loaded package: a row for each sequence, or pages for all."""
    return Pool(model) if model.decode.signature.sizes else Slots(model)


def stream(
    slots: Slots | Pool,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    choice: Choice = GREEDY,
    stop: Collection[int] = (),
) -> Iterator[tuple[int, int]]:
    """Yield (prompt, token) as tokens are chosen; a token of ``stop`` is a sequence's last.

    Each prompt, of any length, takes a slot; prompt n draws from ``choice.seed + n``.
    """
    choices = {
        n: Choice(choice.temperature, choice.top_k, choice.top_p, choice.seed + n)
        for n in range(len(prompts))
    }
    last: dict[int, int] = {}
    for slot, prompt in enumerate(prompts):
        slots.free(slot)
        for start in range(0, len(prompt), slots.chunk):
            part = prompt[start : start + slots.chunk]
            last[slot] = slots.prefill(slot, part, choices[slot])
    for _ in range(tokens - 1):
        yield from last.items()
        last = {slot: token for slot, token in last.items() if token not in stop}
        if not last:
            return
        last = slots.decode(last, choices)
    yield from last.items()


def main() -> None:
    """Print each sequence's tokens."""
    parser = argparse.ArgumentParser(description="generate with an installed package")
    parser.add_argument("package")
    parser.add_argument("prompts", nargs="+", help="token ids with commas between")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--stop", type=int, nargs="*", default=[])
    for field in fields(Choice):
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(option, type=type(field.default), default=field.default)
    given = parser.parse_args()
    choice = Choice(*(getattr(given, field.name) for field in fields(Choice)))
    prompts = [[int(token) for token in prompt.split(",")] for prompt in given.prompts]
    with importlib.import_module(given.package).load() as model:
        found: list[list[int]] = [[] for _ in prompts]
        for prompt, token in stream(sequences(model), prompts, given.tokens, choice, given.stop):
            found[prompt].append(token)
            print(f"{prompt}: {token}", flush=True)
    for tokens in found:
        print(",".join(map(str, tokens)))


if __name__ == "__main__":
    main()
