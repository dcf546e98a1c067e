"""What kernels look like: the golden texts, and that nothing but the model decides them."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.schedule.test_schedule import Layer

from .models import (
    Projection,
    Softmax,
    rendered,
)

ROOT = Path(__file__).parents[2]


def digest_of_layers() -> str:
    """Of all that is rendered for a model with products, attention and norms."""
    torch.manual_seed(0)
    model = nn.Sequential(Layer(), Projection(64, 96))
    text = rendered(model, torch.zeros(2, 5, 64)).as_text()
    return sha256(text.encode()).hexdigest()


@pytest.mark.row("S:inv8", "S:L14", "C:inv24")
def test_no_hash_seed_changes_the_text() -> None:
    """Another process, which has done nothing else and has another seed, says the same."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONWARNINGS": "ignore"}
    program = "from tests.render.test_render import digest_of_layers as f; print(f(), end='')"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, env=environment, cwd=ROOT, stdout=subprocess.PIPE)
    assert done.stdout.decode() == digest_of_layers()


@pytest.mark.row("S:inv8", "C:inv24")
def test_two_renders_are_equal_and_another_model_differs() -> None:
    def text(width: int) -> str:
        torch.manual_seed(0)
        return rendered(nn.Sequential(Projection(8, width), Softmax()), torch.zeros(2, 8)).as_text()

    assert text(16) == text(16) != text(24)
