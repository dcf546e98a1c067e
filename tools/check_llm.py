"""The examples of language models: tokens of their packages beside `generate()` of transformers.

python tools/check_llm.py [llama llama_paged qwen3 gemma3] --tokens 256
python tools/check_llm.py --target sm_90 --packages DIR --build-only         no GPU is needed
python tools/check_llm.py --target sm_90 --packages DIR                      bfloat16, on a GPU

Each example becomes a wheel; a process without torch generates with it, one prompt alone and eight
of unequal lengths at once. In float32, for processors, tokens must be those of `generate()`. In
bfloat16 two sequences part where two logits are nearly equal, so each token must be one that the
accuracy law of `tests/e2e/law.py` allows behind the tokens before it.
"""

import argparse
import copy
import functools
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
from tests.e2e.law import errors

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
cache, found = sequences(package.load(sys.argv[4])), []
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


def build(name: str, out: Path, target: str = "cpu") -> Path:
    """A folder with the files of the example's wheel, as an installer puts them there.

    A wheel for GPUs computes in bfloat16.
    """
    module = example(name)
    if target != "cpu":
        module.methods["decode"].function.__self__.bfloat16()
    wheel = aotpack.build(module.methods, name=module.name, targets=target, out=out)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / module.name)
    return out / module.name


def generated(
    site: Path, requests: list[dict[str, Any]], device: str = "cpu"
) -> list[list[list[int]]]:
    """The tokens of each request's prompts, from one process without torch."""
    command = [sys.executable, "-c", PROGRAM, str(FOLDER), str(site), site.name, device]
    given = json.dumps(requests)
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def prompts(lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    """Random tokens."""
    generator = np.random.default_rng(0)
    return [generator.integers(1, 256, length).tolist() for length in lengths]


@functools.cache
def model_of(name: str, target: str) -> Any:
    """What an example is built from: in bfloat16 on the GPU, or as it is."""
    model = example(name).model
    return model if target == "cpu" else copy.deepcopy(model).bfloat16().cuda()


def reference(
    name: str, given: list[list[int]], tokens: int, target: str = "cpu"
) -> list[list[int]]:
    """What `generate()` makes of prompts that are padded on the left."""
    model = model_of(name, target)
    longest = max(map(len, given))
    padded = [[0] * (longest - len(prompt)) + prompt for prompt in given]
    ids = torch.tensor(padded, device=model.device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in given]).to(ids.device)
    lengths = {"max_new_tokens": tokens, "min_new_tokens": tokens}
    found = model.generate(
        ids, attention_mask=mask, do_sample=False, pad_token_id=0, eos_token_id=None, **lengths
    )
    return found[:, longest:].tolist()  # type: ignore[no-any-return]


def share_of_law(name: str, target: str, prompt: list[int], tokens: list[int]) -> float:
    """By how much the tokens behind a prompt miss the largest logits, in units of what is allowed.

    The law allows each logit an error, so the token of the largest one may be that far, twice,
    below the largest of float64. Eager computes in bfloat16 on the GPU.
    """
    model = model_of(name, target)
    ids = torch.tensor([prompt + tokens[:-1]], device=model.device)
    with torch.no_grad():
        eager = model(ids).logits[0, len(prompt) - 1 :]
        exact = copy.deepcopy(model).double()(ids).logits[0, len(prompt) - 1 :]
    of_eager = errors(eager, eager, exact)
    allowed = 1.5 * of_eager.eagers + torch.finfo(torch.bfloat16).eps * of_eager.scale
    chosen = exact.gather(1, torch.tensor(tokens, device=model.device)[:, None])[:, 0]
    return float((exact.max(1).values - chosen).max()) / (2 * allowed)


def held(name: str, batch: list[list[int]], found: list[list[int]], target: str) -> bool:
    """Compare the tokens of a batch, and print how."""
    wanted = reference(name, batch, len(found[0]), target)
    same, total = int((np.array(found) == np.array(wanted)).sum()), sum(map(len, found))
    words = f"{name}: batch {len(batch)}, {same} of {total} tokens are equal"
    if target == "cpu":
        print(words, flush=True)
        return same == total
    worst = max(share_of_law(name, target, *pair) for pair in zip(batch, found, strict=True))
    print(f"{words}; at most {worst:.3f} of what the law allows", flush=True)
    return worst <= 1


def main() -> None:
    """Compare each example; the exit code is 1 where tokens differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--target", default="cpu", help="cpu, or a GPU's such as sm_90")
    parser.add_argument("--packages", type=Path, help="those that are there are used as they are")
    parser.add_argument("--build-only", action="store_true")
    given, right = parser.parse_args(), True
    with tempfile.TemporaryDirectory() as folder:
        packages: Path = given.packages or Path(folder)
        for name in given.names:
            site = packages / name / example(name).name
            if given.build_only or not site.exists():
                build(name, packages / name, given.target)
            if given.build_only:
                continue
            batches = [prompts(), prompts()[:1]]
            asked = [{"prompts": batch, "tokens": given.tokens} for batch in batches]
            device = "cpu" if given.target == "cpu" else "0"
            for batch, found in zip(batches, generated(site, asked, device), strict=True):
                right &= held(name, batch, found, given.target)
    sys.exit(not right)


if __name__ == "__main__":
    main()
