"""The time of the compiler's stages by model size: BERT encoders of 1 to 96 layers.

    python tools/bench_build.py [--layers 1 2 4 ...] [--hidden 64] [--targets sm_80,sm_90]

Seconds of processor time on one core for lower, schedule and render (precompiling depends on the
machine's cores and its cache, and tracing is torch.export's). ``--hidden 768 --layers 12`` is
BERT-base. A chart for the documentation (mermaid) is printed after the table.
"""

import argparse
import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import transformers
from torch import nn
from torch.export import Dim

from aotpack.lower import lower
from aotpack.render import render, reserved_names
from aotpack.schedule import schedule
from aotpack.target import Target, parse_targets
from aotpack.trace import trace

Product = TypeVar("Product")
STAGES = ("lower", "schedule", "render")


class Encoder(nn.Module):
    """Token ids in, hidden states out."""

    def __init__(self, layers: int, hidden: int) -> None:
        super().__init__()
        config = transformers.BertConfig(
            num_hidden_layers=layers,
            hidden_size=hidden,
            intermediate_size=4 * hidden,
            num_attention_heads=hidden // 64,
            attn_implementation="sdpa",
        )
        self.bert = transformers.BertModel(config, add_pooling_layer=False)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.bert(input_ids=ids).last_hidden_state


def measure(layers: int, hidden: int, targets: tuple[Target, ...]) -> dict[str, float]:
    """Seconds of each stage; batch and sequence are dynamic."""
    module = Encoder(layers, hidden).to(torch.bfloat16).eval()
    shapes = {"ids": {0: Dim("b", min=1, max=64), 1: Dim("s", min=1, max=512)}}
    ids = torch.randint(0, 30000, (2, 16))
    names = reserved_names()
    traced = trace(module, (ids,), dynamic_shapes=shapes, name="bert", version="1", reserved=names)
    seconds = {}

    def timed(stage: str, run: Callable[[], Product]) -> Product:
        start = time.process_time()
        product = run()
        seconds[stage] = time.process_time() - start
        return product

    lowered = timed("lower", lambda: lower(traced))
    scheduled = timed("schedule", lambda: schedule(lowered))
    timed("render", lambda: render(scheduled, targets))
    return seconds


def chart(layers: list[int], totals: list[float]) -> str:
    """A mermaid chart of the totals over the number of layers."""
    points = ", ".join(f"{seconds:.2f}" for seconds in totals)
    return "\n".join(
        [
            "```mermaid",
            "xychart-beta",
            '    title "lower + schedule + render, seconds on one core"',
            f'    x-axis "layers" {layers}',
            f'    y-axis "seconds" 0 --> {math.ceil(max(totals))}',
            f"    line [{points}]",
            "```",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 2, 4, 8, 12, 24, 48, 96])
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--targets", default="sm_90")
    options = parser.parse_args()
    targets = parse_targets(options.targets)
    measure(1, options.hidden, targets)  # imports and first uses do not depend on the model
    print("| layers | lower | schedule | render | total | total / (n log2(n + 1)) |")
    print("|---|---|---|---|---|---|")
    totals = []
    for layers in options.layers:
        seconds = measure(layers, options.hidden, targets)
        totals.append(sum(seconds.values()))
        cells = " | ".join(f"{seconds[stage]:.2f}" for stage in STAGES)
        scaled = totals[-1] / (layers * math.log2(layers + 1))
        print(f"| {layers} | {cells} | {totals[-1]:.2f} | {scaled:.4f} |", flush=True)
    print(chart(options.layers, totals))


if __name__ == "__main__":
    main()
