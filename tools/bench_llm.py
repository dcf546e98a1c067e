"""The first token of a prompt, and the next ones, of `examples/llm` at the size of Llama-3.2-1B.

    python -m tools.bench_llm [--modes eager,compile,reduce-overhead,aotpack] [--csv FILE]
    python -m tools.bench_llm --build-only --packages DIR --target sm_90         no GPU is needed

A package with the methods prefill and decode over one cache of 8 slots is timed beside torch's
modes of the same functions: a prompt of 512 tokens until its first token, chosen greedily, and a
token for all slots. The package takes prompts of 1 to 512 tokens, torch compiles for the 512 alone.
Weights and tokens are random, in bfloat16. Figures are medians of synchronised calls, the modes in
turn. Logits of random weights are nearly equal, so tokens may differ: "below" is by how much the
logits of a mode's tokens miss the largest of float64, at most, beside what eager's errors allow.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import torch
import transformers

from aotpack import Method
from aotpack.emit import write_package
from aotpack.importable import importable
from aotpack.pipeline import BuildOptions, Source, build_of
from aotpack.runtime import load
from aotpack.target import native_target, parse_targets
from tests.e2e.law import errors
from tools.case_packages import write_figures
from tools.model_modes import ROUNDS, milliseconds

EXAMPLES = Path(__file__).parents[1] / "examples" / "llm"
NAME = "llama_1b"
SLOTS, LENGTH, PROMPT = 8, 2048, 512
MODES = "eager", "compile", "reduce-overhead", "max-autotune", "aotpack"
Args = tuple[torch.Tensor, ...]


def greedy() -> Any:
    """The decoder of the examples, whose methods choose the most likely token."""
    with importable(EXAMPLES):
        decoder = importlib.import_module("decoder").Decoder

    class Greedy(decoder):  # type: ignore[misc, valid-type]
        def prefill_logits(self, ids: torch.Tensor, slot: torch.Tensor, start: torch.Tensor) -> Any:
            return self.logits(self.hidden(ids, start, slot)[:, -1])

        def decode_logits(self, ids: torch.Tensor, starts: torch.Tensor) -> Any:
            return self.logits(self.hidden(ids[:, None], starts, None)[:, 0])

        def prefill(
            self, ids: torch.Tensor, slot: torch.Tensor, start: torch.Tensor
        ) -> torch.Tensor:
            return self.prefill_logits(ids, slot, start).argmax(-1)

        def decode(self, ids: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
            return self.decode_logits(ids, starts).argmax(-1)

    config = transformers.LlamaConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    return Greedy(model.eval(), SLOTS, LENGTH, PROMPT)


def arguments() -> dict[str, Args]:
    """Of each method: a prompt for slot 3, and a token for each slot of 1000."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 128256, (1, PROMPT), generator=generator)
    last = torch.randint(0, 128256, (SLOTS,), generator=generator)
    return {
        "prefill": (ids, torch.tensor([3]), torch.zeros(1, dtype=torch.int64)),
        "decode": (last, torch.full((SLOTS,), 1000)),
    }


def packaged(folder: Path, target: str) -> Path:
    """The folder of a package without weights."""
    decoder, args = greedy(), arguments()
    tokens = torch.export.Dim("tokens", min=1, max=PROMPT)
    shapes = {"ids": {1: tokens}, "slot": None, "start": None}
    methods = {
        "prefill": Method(decoder.prefill, args["prefill"], dynamic_shapes=shapes),
        "decode": Method(decoder.decode, args["decode"]),
    }
    options = BuildOptions(parse_targets(target), golden=0, weights="none")
    source = Source(methods, (), None, None, NAME)
    write_package(build_of(source, options).precompiled, folder, "none", runtime=False)
    return folder


def torch_call(function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    """A method in one of torch's modes."""
    if mode == "eager":
        return function
    return torch.compile(function, mode=None if mode == "compile" else mode)


@dataclass(frozen=True, slots=True)
class Exact:
    """The logits of float64, and how far a token's may be below the largest by the law."""

    logits: torch.Tensor
    allowed: float

    @classmethod
    def of(cls, decoder: Any, method: str, args: Args) -> Exact:
        eager = getattr(decoder, f"{method}_logits")(*args)
        exact = getattr(copy.deepcopy(decoder).double(), f"{method}_logits")(*args)
        found = errors(eager, eager, exact)
        unit = torch.finfo(torch.bfloat16).eps * found.scale
        return cls(exact, 2 * (1.5 * found.eagers + unit))

    def below(self, tokens: torch.Tensor) -> float:
        """By how much the logits of tokens miss the largest of their rows, at most."""
        chosen = self.logits.gather(1, tokens[:, None])[:, 0]
        return float((self.logits.amax(1) - chosen).max())


def measured(package: Path, modes: list[str]) -> Iterator[tuple[str, str, float, str]]:
    """Method, mode, milliseconds, and how good the tokens are; each line is printed."""
    with torch.device("cuda"):
        decoder = greedy()
    weights = {name: tensor.cpu() for name, tensor in decoder.state_dict().items()}
    model = load(package, 0, weights=weights, check=False)
    for method, args in arguments().items():
        given = tuple(arg.cuda() for arg in args)
        exact = Exact.of(decoder, method, given)
        calls = {
            mode: getattr(model, method)
            if mode == "aotpack"
            else torch_call(getattr(decoder, method), mode)
            for mode in modes
        }
        below = {
            mode: max(exact.below(torch.as_tensor(call(*given)).clone()) for _ in range(3))
            for mode, call in calls.items()
        }
        rounds = [
            {mode: milliseconds(call, given)[0] for mode, call in calls.items()}
            for _ in range(ROUNDS + 1)
        ][1:]
        for mode in modes:
            ms = statistics.median(one[mode] for one in rounds)
            words = f"below {below[mode]:.4f}, allowed {exact.allowed:.4f}"
            print(f"{method:8} {mode:16} {ms:8.3f} ms  {words}", flush=True)
            yield method, mode, ms, words


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--packages", type=Path, default=Path(gettempdir(), "llm"))
    parser.add_argument("--build-only", action="store_true", help="build anew, measure nothing")
    parser.add_argument("--target", help="of the package (default: this machine's GPU)")
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    package = given.packages / NAME
    if given.build_only or not package.exists():
        packaged(package, given.target or str(native_target()))
    if given.build_only:
        return
    found = [*measured(package, given.modes.split(","))]
    if given.csv:
        header = {
            "title": "examples/llm at Llama-1B's size: first token of 512, next tokens of 8 slots",
            "versions": f"torch {torch.__version__}",
            "command": "python -m tools.bench_llm",
            "note": "bf16, random weights, a cache of 2048; wall time of a synchronised call",
        }
        rows = ((method, mode, f"{ms:.4f}", "", "ms", words) for method, mode, ms, words in found)
        write_figures(given.csv, header, rows)


if __name__ == "__main__":
    with torch.no_grad():
        main()
