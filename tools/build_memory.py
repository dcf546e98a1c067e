"""The host memory of a build, over the bytes of its weights.

    python -m tools.build_memory --layers 4 --hidden 2048 --weights sidecar
    python -m tools.build_memory --layers 32 --hidden 4096 --vocabulary 128256           8B: 16 GB

A Llama in bfloat16 with random weights, which are mapped from safetensors files as checkpoints
are. A thread looks at the memory of the process while `aotpack.build` runs: "own" is what cannot be
dropped, without the pages of mapped files. The pages of the files are their bytes at most, so the
build takes `(weights + own) / weights` times the weights. Workers that compile hold no weights.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

import aotpack

SHARD = 2 << 30  # bytes of a file, at least, but for the last


@dataclass(frozen=True, slots=True)
class Used:
    """Bytes of the weights and, at the worst moment of the build, of its own; seconds."""

    weights: int
    own: int
    seconds: float

    @property
    def ratio(self) -> float:
        return (self.weights + self.own) / max(1, self.weights)


class Watch:
    """The most anonymous memory of this process since it began to look."""

    def __init__(self) -> None:
        self.first = self.most = own_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._done.wait(0.02):
            self.most = max(self.most, own_bytes())

    @contextmanager
    def looking(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._done.set()
            self._thread.join()


def own_bytes() -> int:
    """The memory of this process that no file holds."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def shards(shapes: dict[str, torch.Size], folder: Path) -> Iterator[Path]:
    """Files of random weights, each written before the next is drawn."""
    drawn: dict[str, torch.Tensor] = {}
    for number, (name, shape) in enumerate(shapes.items(), 1):
        drawn[name] = torch.randn(shape, dtype=torch.bfloat16) * 0.02
        if number == len(shapes) or sum(one.nbytes for one in drawn.values()) >= SHARD:
            path = folder / f"model-{number}.safetensors"
            save_file(drawn, path)
            drawn.clear()
            yield path


def llama(config: LlamaConfig, folder: Path | None) -> LlamaForCausalLM:
    """The model, with weights of files that are mapped, or without values on meta."""
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    model.model.rotary_emb = LlamaRotaryEmbedding(config)
    if folder is not None:
        shapes = {name: one.shape for name, one in model.state_dict().items()}
        state: dict[str, torch.Tensor] = {}
        for path in shards(shapes, folder):
            state.update(load_file(path))
        model.load_state_dict(state, assign=True)
    return model


def measured(config: LlamaConfig, weights: str, target: str) -> Used:
    """Build a wheel and look at the memory meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        model = llama(config, None if weights == "none" else place)
        size = sum(one.numel() * 2 for one in model.state_dict().values())
        watch, begin = Watch(), time.perf_counter()
        with watch.looking():
            ids = torch.tensor([[3, 1, 4, 1]])
            aotpack.build(model, (ids,), targets=target, out=place / "dist", weights=weights)
        return Used(size, watch.most - watch.first, time.perf_counter() - begin)


def config_of(layers: int, hidden: int, vocabulary: int) -> LlamaConfig:
    """The proportions of an 8B Llama: 32 layers, 4096 wide, of 128256 tokens."""
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 7 // 2,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 128,
        num_key_value_heads=max(1, hidden // 512),
        use_cache=False,
    )


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--weights", default="sidecar", choices=["embed", "sidecar", "none"])
    parser.add_argument("--target", default="sm_90")
    given = parser.parse_args()
    config = config_of(given.layers, given.hidden, given.vocabulary)
    used = measured(config, given.weights, given.target)
    print(
        f"{used.weights / 1e9:.2f} GB of weights, {used.own / 1e9:.2f} GB more, "
        f"{used.ratio:.2f} times the weights, {used.seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
