"""Generation with a package of ``decoder.py`` or ``paged.py``: numpy and the package, no torch.

python examples/llm/generate.py tiny_llama --tokens 24 3,1,4,1,5 9,2,6
"""

import argparse
import importlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from typing import Any

from pool import OutOfPages, Pool
from slots import GREEDY, Choice, Slots, refuse_foreign


def package(name: str) -> Any:
    """The module of an installed package by its name."""
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports another
        raise ValueError(
            f"importing {name!r}: there is no module of this name; give the name of an installed "
            "package, such as tiny_llama, and install its wheel with pip"
        ) from None
    if not hasattr(found, "AotpackError"):
        raise ValueError(f"importing {name!r}: it is no package that aotpack built")
    return found


def sequences(model: Any) -> Slots | Pool:
    """The cache of a loaded package: a row for each sequence, or pages for all."""
    methods = getattr(model, "methods", {})
    if not {"prefill", "decode"} <= methods.keys():
        raise ValueError(
            f"{model!r} has no methods prefill and decode; give a package that aotpack built of a "
            "model of examples/llm"
        )
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
    check(slots, prompts, tokens)
    refuse_foreign("stop", stop, slots.vocabulary)
    return _streamed(slots, prompts, tokens, choice, stop)


def check(slots: Slots | Pool, prompts: Sequence[Sequence[int]], tokens: int) -> None:
    """Refuse prompts that the cache has no place for, with the tokens that are to follow them."""
    if len(prompts) > slots.count:
        raise ValueError(
            f"{len(prompts)} prompts were given, and the cache of the package has {slots.count} "
            f"slots; give up to {slots.count} at once, or build a package with more slots"
        )
    for number, prompt in enumerate(prompts):
        if not 1 <= len(prompt) <= slots.capacity:
            raise ValueError(
                f"prompt {number} has {len(prompt)} tokens; 1 to {slots.capacity} are accepted, "
                "which a slot of the cache holds"
            )
        refuse_foreign(f"prompt {number}", prompt, slots.vocabulary)
    if tokens < 1:
        raise ValueError(f"{tokens} tokens were asked for; 1 or more are accepted")
    longest = max(map(len, prompts), default=1)
    if longest + tokens - 1 > slots.capacity:
        raise ValueError(
            f"a prompt of {longest} tokens and {tokens} new ones were asked for, and a slot of the "
            f"cache holds {slots.capacity}; ask for up to {slots.capacity - longest + 1} new "
            "tokens, or build a package with longer slots"
        )
    if isinstance(slots, Pool):
        _check_pages(slots, [*map(len, prompts)], tokens)


def _check_pages(pool: Pool, lengths: Sequence[int], tokens: int) -> None:
    """Refuse sequences that together need more pages than there are for them."""
    needed = sum(-(-(length + tokens - 1) // pool.page) for length in lengths)
    there = len(pool.unused) + sum(len(pool.tables[slot]) for slot in range(len(lengths)))
    if needed > there:
        raise ValueError(
            f"{len(lengths)} prompts of {sum(lengths)} tokens in all and {tokens} new ones for "
            f"each were asked for: they need {needed} pages of {pool.page} tokens, and there are "
            f"{there}; ask for fewer tokens or fewer prompts at once, or build a package with more "
            "pages"
        )


def _streamed(
    slots: Slots | Pool,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    choice: Choice,
    stop: Collection[int],
) -> Iterator[tuple[int, int]]:
    choices = {
        n: Choice(choice.temperature, choice.top_k, choice.top_p, (choice.seed + n) % 2**32)
        for n in range(len(prompts))
    }
    last: dict[int, int] = {}
    for slot in range(len(prompts)):
        slots.free(slot)
    for slot, prompt in enumerate(prompts):
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


def ids(text: str) -> list[int]:
    """The tokens of a prompt on the command line."""
    parts = text.split(",")
    wrong = [part for part in parts if not (part.strip().isascii() and part.strip().isdecimal())]
    if wrong:
        raise ValueError(
            f"the prompt {text!r} has {wrong[0]!r} for a token; numbers with commas between are "
            "accepted, such as 3,1,4"
        )
    return [*map(int, parts)]


def main() -> None:
    """Print each sequence's tokens; a mistake is one line, and exit code 2."""
    parser = argparse.ArgumentParser(description="generate with an installed package")
    parser.add_argument("package")
    parser.add_argument("prompts", nargs="+", help="token ids with commas between")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--stop", type=int, nargs="*", default=[])
    for field in fields(Choice):
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(option, type=type(field.default), default=field.default)
    given = parser.parse_args()
    try:
        choice = Choice(*(getattr(given, field.name) for field in fields(Choice)))
        run(given.package, [*map(ids, given.prompts)], given.tokens, choice, given.stop)
    except (ValueError, OutOfPages) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")


def run(
    name: str, prompts: Sequence[Sequence[int]], tokens: int, choice: Choice, stop: Collection[int]
) -> None:
    """Print tokens as they are chosen, and then those of each sequence."""
    installed = package(name)
    found: list[list[int]] = [[] for _ in prompts]
    try:
        with installed.load() as model:
            for prompt, token in stream(sequences(model), prompts, tokens, choice, stop):
                found[prompt].append(token)
                print(f"{prompt}: {token}", flush=True)
    except installed.AotpackError as error:
        raise ValueError(str(error)) from None
    for one in found:
        print(",".join(map(str, one)))


if __name__ == "__main__":
    main()
