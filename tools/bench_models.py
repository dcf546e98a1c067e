"""Whole models, wall time a call: eager, torch.compile and aotpack (two modes each), compared.

    python tools/bench_models.py [bert_1x128 bert_32x128 gpt2_1x512] [--modes eager,compile,...]

Every figure is the median of synchronised calls in one process, the modes in turn over several
rounds, so that a drift of the machine touches all alike. "launches" is aotpack without graphs.
Inputs are random. Needs a GPU, torch and triton.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import transformers

import aotpack

Case = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]
MODES = ("eager", "compile", "reduce-overhead", "launches", "aotpack")
ROUNDS = 5
CALLS = 40


class LastHiddenState(torch.nn.Module):
    """A transformers model that takes token ids and gives its last hidden state."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids).last_hidden_state


def bert(batch: int, sequence: int) -> Case:
    config = transformers.BertConfig(attn_implementation="sdpa")
    return _on_gpu(transformers.BertModel(config, add_pooling_layer=False), batch, sequence)


def gpt2(batch: int, sequence: int) -> Case:
    config = transformers.GPT2Config(use_cache=False, attn_implementation="sdpa")
    return _on_gpu(transformers.GPT2Model(config), batch, sequence)


def _on_gpu(model: torch.nn.Module, batch: int, sequence: int) -> Case:
    ids = torch.randint(0, 30000, (batch, sequence), device="cuda")
    return LastHiddenState(model).eval().cuda().bfloat16(), (ids,)


CASES: dict[str, Callable[[], Case]] = {
    "bert_1x128": lambda: bert(1, 128),
    "bert_32x128": lambda: bert(32, 128),
    "gpt2_1x512": lambda: gpt2(1, 512),
}


def prepare(
    mode: str, module: torch.nn.Module, args: tuple[torch.Tensor, ...]
) -> Callable[..., object]:
    """The callable of a mode, warmed up."""
    if mode == "eager":
        call: Callable[..., object] = module
    elif mode in ("launches", "aotpack"):
        host = _on_host(module, args)
        call = aotpack.compile(*host, target="native", graphs=mode == "aotpack")
    else:
        torch._dynamo.reset()
        call = torch.compile(module, mode=None if mode == "compile" else mode)
    for _ in range(3):
        call(*args)
    torch.cuda.synchronize()
    return call


def _on_host(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> Case:
    """Export needs modules and inputs on one device; aotpack builds from host copies."""
    import copy

    return copy.deepcopy(module).cpu(), tuple(arg.cpu() for arg in args)


def milliseconds(
    call: Callable[..., object], args: tuple[torch.Tensor, ...]
) -> tuple[float, float]:
    """(latency of a synchronised call, time a call when they follow each other)."""
    latencies = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call(*args)
        torch.cuda.synchronize()
        latencies.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(CALLS):
        call(*args)
    torch.cuda.synchronize()
    return statistics.median(latencies) * 1e3, (time.perf_counter() - start) / CALLS * 1e3


def host_microseconds(call: Callable[..., object], args: tuple[torch.Tensor, ...]) -> float:
    """The time until a call returns, while the GPU is idle at its start."""
    times = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call(*args)
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return statistics.median(times) * 1e6


def error(
    call: Callable[..., object], module: torch.nn.Module, args: tuple[torch.Tensor, ...]
) -> float:
    """Largest difference from a float64 run, in units of eager's own."""
    import copy

    exact = copy.deepcopy(module).double()(*args)
    own = (module(*args).double() - exact).abs().max().item()
    return (torch.as_tensor(call(*args)).double() - exact).abs().max().item() / own


def bench(name: str, modes: tuple[str, ...]) -> None:
    module, args = CASES[name]()
    built: dict[str, Callable[..., object]] = {}
    for mode in modes:
        start = time.perf_counter()
        built[mode] = prepare(mode, module, args)
        print(f"{name} {mode} ready in {time.perf_counter() - start:.1f} s", flush=True)
    rounds = {mode: [milliseconds(call, args) for _ in range(1)] for mode, call in built.items()}
    for _ in range(ROUNDS):
        for mode, call in built.items():
            rounds[mode].append(milliseconds(call, args))
    for mode, call in built.items():
        latency = statistics.median(one[0] for one in rounds[mode][1:])
        steady = statistics.median(one[1] for one in rounds[mode][1:])
        host = host_microseconds(call, args)
        wrong = error(call, module, args)
        print(
            f"{name:12} {mode:16} latency {latency:7.3f} ms  back to back {steady:7.3f} ms"
            f"  host {host:7.0f} us  error {wrong:.2f}x eager",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "cases", nargs="*", default=list(CASES), metavar="CASE", help=f"{list(CASES)}"
    )
    parser.add_argument("--modes", default=",".join(MODES))
    given = parser.parse_args()
    torch.manual_seed(0)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"{torch.cuda.get_device_name()}, {versions}")
    with torch.no_grad():
        for name in given.cases:
            bench(name, tuple(given.modes.split(",")))


if __name__ == "__main__":
    main()
