"""The example of search: embeddings and scores of texts are those of transformers."""

import importlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aotpack
from aotpack.importable import importable
from aotpack.runtime import AotpackError

FOLDER = Path(__file__).parents[2] / "examples" / "search"
with importable(FOLDER):
    encoders, search = importlib.import_module("encoders"), importlib.import_module("search")

TEXTS = [f"text {number}: " + "some words " * (number * 7 % 23) for number in range(70)]
QUESTION = "which text has words?"
PROGRAM = """
import json, sys
for name in ("torch", "triton", "transformers", "aotpack"):
    sys.modules[name] = None
sys.path[:0] = sys.argv[1:3]
import search, tiny_search
searcher = search.Searcher(tiny_search.load("cpu"))
given = json.load(sys.stdin)
searcher.add(given["texts"])
print(json.dumps(searcher.find(given["question"], 5)))
"""


@pytest.fixture(scope="module")
def site(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    def build(folder: Path) -> None:
        wheel = aotpack.build(encoders.methods, name=encoders.name, targets="cpu", out=folder)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)

    return once("search", build)


@pytest.fixture
def searcher(site: Path) -> Iterator[Any]:
    with importable(site):
        package = importlib.import_module("tiny_search")
    with package.load("cpu") as model:
        made = search.Searcher(model)
        made.add(TEXTS)
        yield made


def embedding(text: str) -> torch.Tensor:
    """Of one text without padding, by transformers."""
    ids = torch.tensor([[search.BEGIN, *text.encode()][:256]])
    states = encoders.embedder.bert(ids).last_hidden_state[0]
    return torch.nn.functional.normalize(states.mean(0), dim=0)


def score(text: str) -> float:
    """Of one pair without padding, by transformers."""
    first = [search.BEGIN, *QUESTION.encode(), search.BETWEEN]
    ids = torch.tensor([[*first, *text.encode()][:256]])
    kinds = (torch.arange(ids.shape[1]) >= len(first)).long()[None]
    return float(encoders.scorer.bert(ids, token_type_ids=kinds).logits.sigmoid())


@torch.no_grad()
def test_texts_of_unequal_lengths_get_what_each_gets_alone(searcher):
    assert len({len(text) for text in TEXTS}) > 20
    wanted = torch.stack([embedding(text) for text in TEXTS]).numpy()
    np.testing.assert_allclose(searcher.vectors, wanted, atol=2e-5)
    scores = [score(text) for text in TEXTS]
    np.testing.assert_allclose(searcher.scores(QUESTION, TEXTS), scores, atol=2e-5)
    assert np.ptp(scores) > 0.01
    nearness = wanted @ embedding(QUESTION).numpy()
    assert searcher.candidates(QUESTION, 10) == np.argsort(-nearness)[:10].tolist()


@torch.no_grad()
def test_a_process_without_torch_finds_the_best_of_the_nearest(searcher, site):
    command = [sys.executable, "-c", PROGRAM, str(FOLDER), str(site)]
    given = json.dumps({"texts": TEXTS, "question": QUESTION})
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
    near = [TEXTS[number] for number in searcher.candidates(QUESTION, 32)]
    best = sorted(near, key=score, reverse=True)[:5]
    assert [text for _, text in json.loads(done.stdout)] == best
    assert best != near[:5]


def test_what_a_batch_does_not_take_is_refused(searcher):
    with pytest.raises(AotpackError, match=r"makes texts 65 .* 1 to 64"):
        searcher.model.embed(*search.padded([[1]] * 65))
    with pytest.raises(AotpackError, match=r"makes tokens 257 .* 1 to 256"):
        searcher.model.embed(*search.padded([[1] * 257]))
