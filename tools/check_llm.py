"""The examples of language models: tokens of their packages beside `generate()` of transformers.

python tools/check_llm.py [llama llama_paged qwen3 gemma3] --tokens 256

Each example becomes a wheel for processors; a process without torch generates with it, one prompt
alone and eight of unequal lengths at once.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import aotpack
from aotpack.importable import importable

FOLDER = Path(__file__).parents[1] / "examples" / "llm"
NAMES = "llama", "llama_paged", "qwen3", "gemma3"
LENGTHS = 5, 1, 37, 16, 20, 3, 29, 8
PROGRAM = """
import importlib, json, sys
for name in ("torch", "triton", "transformers", "aotpack"):
    sys.modules[name] = None
sys.path[:0] = sys.argv[1:3]
from generate import Choice, sequences, stream
package = importlib.import_module(sys.argv[3])
cache, found = sequences(package.load("cpu")), []
for request in json.load(sys.stdin):
    choice = Choice(**request.pop("choice", {}))
    tokens = [[] for _ in request["prompts"]]
    for prompt, token in stream(cache, choice=choice, **request):
        tokens[prompt].append(token)
    found.append(tokens)
print(json.dumps(found))
"""


def example(name: str) -> Any:
    """A module of the examples: a model file by its name, or one beside them."""
    with importable(FOLDER):
        return importlib.import_module(name)


def build(name: str, out: Path) -> Path:
    """A folder with the files of the example's wheel, as an installer puts them there."""
    module = example(name)
    wheel = aotpack.build(module.methods, name=module.name, targets="cpu", out=out)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / module.name)
    return out / module.name


def generated(site: Path, requests: list[dict[str, Any]]) -> list[list[list[int]]]:
    """The tokens of each request's prompts, from one process without torch."""
    command = [sys.executable, "-c", PROGRAM, str(FOLDER), str(site), site.name]
    given = json.dumps(requests)
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def prompts(lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    """Random tokens."""
    generator = np.random.default_rng(0)
    return [generator.integers(1, 256, length).tolist() for length in lengths]


def reference(name: str, given: list[list[int]], tokens: int) -> list[list[int]]:
    """What `generate()` makes of prompts that are padded on the left."""
    longest = max(map(len, given))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in given])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in given])
    lengths = {"max_new_tokens": tokens, "min_new_tokens": tokens}
    found = example(name).model.generate(
        ids, attention_mask=mask, do_sample=False, pad_token_id=0, eos_token_id=None, **lengths
    )
    return found[:, longest:].tolist()  # type: ignore[no-any-return]


def main() -> None:
    """Compare each example; the exit code is 1 where tokens differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--tokens", type=int, default=256)
    given, differs = parser.parse_args(), False
    for name in given.names:
        with tempfile.TemporaryDirectory() as folder:
            site = build(name, Path(folder))
            batches = [prompts(), prompts()[:1]]
            asked = [{"prompts": batch, "tokens": given.tokens} for batch in batches]
            for batch, found in zip(batches, generated(site, asked), strict=True):
                wanted = reference(name, batch, given.tokens)
                same = int((np.array(found) == np.array(wanted)).sum())
                total = len(batch) * given.tokens
                print(f"{name}: batch {len(batch)}, {same} of {total} tokens are equal", flush=True)
                differs |= same != total
    sys.exit(differs)


if __name__ == "__main__":
    main()
