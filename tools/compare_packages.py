"""Packages of one model in turns, in one process: what a change of the generated code gains.

    python -m tools.bench_models llama_1b_decode --build-only --target sm_90 --packages BEFORE
    python -m tools.bench_models llama_1b_decode --build-only --target sm_90 --packages AFTER
    python -m tools.compare_packages llama_1b_decode BEFORE AFTER

All get the same random weights, drawn on the GPU. Figures are medians of rounds: a synchronised
call, and a call of many one after another. Results are compared with those of the first package.
"""

import argparse
import statistics
from pathlib import Path

import torch

from aotpack.runtime import load
from tools.model_cases import CASES
from tools.model_modes import milliseconds

ROUNDS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", choices=sorted(CASES), metavar="CASE")
    parser.add_argument("folders", nargs="+", type=Path, help="of bench_models, one each")
    given = parser.parse_args()
    torch.manual_seed(0)
    with torch.device("cuda"):
        module, args = CASES[given.case]()
    module = module.eval().to(torch.bfloat16)
    args = tuple(x.to(torch.bfloat16) if x.is_floating_point() else x for x in args)
    weights = {name: tensor.cpu() for name, tensor in module.state_dict().items()}
    packages = [folder / given.case for folder in given.folders]
    models = [load(package, 0, weights=weights, check=False) for package in packages]
    rounds = [[milliseconds(model, args) for model in models] for _ in range(ROUNDS + 1)][1:]
    first = torch.as_tensor(models[0](*args)).float()
    for number, model in enumerate(models):
        alone, behind = (statistics.median(one[number][k] for one in rounds) for k in (0, 1))
        apart = float((torch.as_tensor(model(*args)).float() - first).abs().max())
        times = f"{alone:8.4f} ms  one after another {behind:8.4f} ms"
        print(f"{given.folders[number].name:16} {times}  differs by {apart:.3g}")


if __name__ == "__main__":
    main()
