"""The host memory of a build: weights are mapped, and no run holds all of them in float64."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import fx, nn

from aotpack.trace.golden.cost import cost_of
from aotpack.trace.golden.pieces import PIECE, widened_in_pieces

ROOT = Path(__file__).parents[1]
FIXED = 120e6  # bytes of graphs, kernels and torch's own, whatever the weights
PROGRAM = """
import dataclasses, json, sys
from tools import build_memory
layers, hidden, vocabulary, weights = json.loads(sys.argv[1])
used = build_memory.measured(build_memory.config_of(layers, hidden, vocabulary), weights, "sm_90")
print(json.dumps(dataclasses.asdict(used)))
"""


def used(*given: object) -> dict[str, float]:
    command = [sys.executable, "-c", PROGRAM, json.dumps(given)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def test_a_build_holds_its_weights_once():
    """A copy of all weights would be 1 times their bytes; all in float64, 4 times."""
    found = used(1, 2048, 32000, "sidecar")
    assert found["weights"] > 350e6
    assert found["own"] - FIXED < 0.3 * found["weights"]


def test_weights_on_meta_take_no_memory():
    found = used(1, 4096, 128256, "none")
    assert found["weights"] > 2.4e9
    assert found["own"] < FIXED


class Products(nn.Module):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(columns, 64)
        self.head = nn.Linear(64, columns)
        self.flat = nn.Parameter(torch.randn(64, columns))

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.embed(ids)
        return self.head(x), x @ self.flat, torch.addmm(self.head.bias, x, self.flat)


def products(columns: int) -> tuple[list[fx.Node], nn.Module, fx.GraphModule]:
    module = Products(columns).bfloat16()
    program = torch.export.export(module, (torch.arange(3),)).run_decompositions({})
    nodes = [n for n in program.graph.nodes if n.op == "call_function"]
    return nodes, module, program.graph_module


LARGE = PIECE // 64 + 5


def test_large_weights_are_widened_in_pieces():
    nodes, module, graph = products(LARGE)
    x = torch.randn(3, 64)
    weight, flat, bias = (
        one.detach() for one in (module.head.weight, module.flat, module.head.bias)
    )
    wide = {
        "embedding": ((module.embed.weight.detach(), torch.arange(3)), None),
        "linear": ((x, weight, bias), x.double() @ weight.double().T + bias.double()),
        "matmul": ((x, flat), x.double() @ flat.double()),
        "addmm": ((bias, x, flat), x.double() @ flat.double() + bias.double()),
    }
    found = {node.target._schema.name.partition("::")[2]: node for node in nodes}
    for name, (args, wanted) in wide.items():
        result = widened_in_pieces(found[name], args, {})
        wanted = args[0][:3].double() if wanted is None else wanted
        torch.testing.assert_close(result, wanted, rtol=1e-13, atol=1e-13)
    assert cost_of(graph, wide=True).held < 8 * 2 * PIECE


@pytest.mark.parametrize("case", ["small", "keywords"])
def test_others_are_widened_whole(case):
    nodes, module, _ = products(64 if case == "small" else LARGE)
    args = module.embed.weight.detach(), torch.arange(3)
    kwargs = {"padding_idx": 1} if case == "keywords" else {}
    node = next(node for node in nodes if "embedding" in str(node.target))
    assert widened_in_pieces(node, args, kwargs) is None
