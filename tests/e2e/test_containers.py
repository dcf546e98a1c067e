"""Results as the model returns them, and calls as the model takes them."""

import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from mypy import api
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

import aotpack
from aotpack.cli import main

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclass
class Box:
    first: torch.Tensor
    second: torch.Tensor | None = None


torch.export.register_dataclass(Box, serialized_type_name="test_containers.Box")


class Many(nn.Module):
    """Returns every kind of container."""

    def forward(self, ids, scale=None, *, pair):
        y = ids * scale + pair.left
        return {
            "top": y.topk(2),
            "sorted": list(y.sort(descending=True)),
            "pair": Pair(left=y, right=pair.right),
            "output": BaseModelOutput(last_hidden_state=y, attentions=(y, y + 1)),
            "box": Box(second=y + 2, first=y),
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel of ``Many``, built with a dict of example inputs."""
    path = tmp_path_factory.mktemp("packages")
    kwargs = {"pair": Pair(X, X), "scale": X, "ids": X}
    wheel = aotpack.build(Many(), (), kwargs, name="many_kinds", targets="cpu", out=path)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(path)
    return path / "many_kinds"


def test_a_package_gives_what_the_model_gives(folder: Path) -> None:
    with aotpack.runtime.load(folder, "cpu") as model:
        for made in (model(X, X, pair=Pair(X, X)), model(X, scale=X, pair={"left": X, "right": X})):
            wanted = Many()(X, X, pair=Pair(X, X))
            assert [*made] == [*wanted]
            torch.testing.assert_close(tuple(made["top"]), tuple(wanted["top"]))
            assert repr(made["top"]) == repr(wanted["top"])
            torch.testing.assert_close(made["sorted"], wanted["sorted"])
            assert repr(made["pair"]) == repr(wanted["pair"])
            assert repr(made["box"]) == repr(wanted["box"])
            ours, theirs = made["output"], wanted["output"]
            assert repr(ours) == repr(theirs) and [*ours] == [*theirs]
            assert ours.hidden_states is None and len(ours) == len(theirs) == 2
            torch.testing.assert_close(ours[1][1], theirs[1][1])
        told = str(model.signature)
    f = "float32[3, 4]"
    pair = f"Pair(left: {f}, right: {f})"
    assert told.startswith(
        f"many_kinds(ids: {f}, scale: {f}, *, pair: {pair}) -> {{'top': torch.ret"
    )
    assert f"'box': Box(first: {f}, second: {f})}}" in told and "hidden_states" not in told


PROGRAM = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
import numpy, many_kinds
x = numpy.ones((3, 4), "float32")
made = many_kinds.load("cpu")(x, x, pair={"left": x, "right": x})
print(made["top"].indices.shape, made["output"].last_hidden_state.sum(), made["box"].second[0, 0])
"""


def test_containers_need_no_torch(folder: Path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["(3,", "2)", "24.0", "4.0"]


@pytest.mark.parametrize(
    ("args", "keywords", "words"),
    [
        (
            (X, X, X),
            {"pair": Pair(X, X)},
            "got 3 positional arguments for 2; accepted: ids, scale; by",
        ),
        ((X,), {}, "arguments 'scale', 'pair' are missing; accepted: ids, scale; by keyword alone"),
        (
            (X, X),
            {"pair": Box(X, X)},
            "argument 'pair' is Box; accepted: Pair with 'left', 'right', or a dict",
        ),
        ((X, X), {"pair": Pair(X, X[:, 0])}, "argument 'pair.right' has 1 dimensions"),
    ],
)
def test_what_forward_does_not_take_is_refused(
    folder: Path, args: tuple, keywords: dict, words: str
) -> None:
    refused = pytest.raises(aotpack.AotpackError, match=words)
    with aotpack.runtime.load(folder, "cpu") as model, refused:
        model(*args, **keywords)


def test_inputs_and_outputs_one_by_one(folder: Path) -> None:
    with aotpack.runtime.load(folder, "cpu") as model:
        assert [one.path for one in model.inputs] == ["pair.left", "pair.right", "scale", "ids"]
        paths = {one.name: one.path for one in model.outputs}
        assert paths["top.values"] == "['top'].values" and paths["sorted[1]"] == "['sorted'][1]"
        made = model(X, X, pair=Pair(X, X))
        for one in model.outputs:
            found = eval(f"made{one.path}", {"made": made})
            assert (tuple(found.shape), str(found.dtype)) == (one.shape, f"torch.{one.dtype}")
        assert repr(model.inputs[2]) == "<scale: float32[3, 4] on cpu>"


def test_reports_name_results_as_the_model_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = aotpack.runtime.verify(folder, "cpu")
    assert report.is_passed
    names = [check.name for check in report.checks]
    assert names[:5] == ["top.values", "top.indices", "sorted[0]", "sorted[1]", "pair.left"]
    (wheel,) = folder.parent.glob("*.whl")
    assert main(["inspect", str(wheel)]) == 0
    told = capsys.readouterr().out
    assert re.search(r"output +top.values: float32\[3, 2\]", told)
    assert re.search(r"input +pair.left: float32\[3, 4\]", told)


RIGHT = """
from dataclasses import dataclass

import many_kinds
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass
class Mine:
    left: Array
    right: Array


def use(x: Array) -> Array:
    try:
        with many_kinds.load("cpu", concurrency=2, debug="sync") as any_arrays:
            any_arrays(x, x, pair={"left": x, "right": x})
        model: many_kinds.Model[Array] = many_kinds.load(device=0, graphs=False)
        made = model(x, scale=x, pair=Mine(x, x))
        again = model(x, x, pair=many_kinds.Pair(left=x, right=x))
        output: many_kinds.BaseModelOutput[Array] = made["output"]
        first: Array = output[0] + output["last_hidden_state"] + output.attentions[1]
        nothing: None = output.hidden_states
        values, indices = made["top"]
        sizes: list[str] = [str(size) for one in model.inputs for size in one.sizes]
        print(nothing, indices, again["pair"].left, sizes, model.signature, model.state)
        return values + made["top"].values + made["sorted"][0] + made["box"].second + first
    except many_kinds.ArgumentError as error:
        print(error.aotpack_kind)
        raise
"""
WRONG = {
    "many_kinds.load(conncurrency=2)": 'Unexpected keyword argument "conncurrency" for "load"',
    "many_kinds.load(debug=True)": 'Argument "debug" to "load" has incompatible type',
    'model(x, pair={"left": x, "right": x})': 'Missing positional argument "scale" in call',
    "model(x, x, x)": 'Too many positional arguments for "__call__" of "Model"',
    "model(x, x, pair=x)": 'Argument "pair" to "__call__" of "Model" has incompatible type',
    'model("text", x, pair=both)': 'Argument 1 to "__call__" of "Model" has incompatible type',
    'made["topp"]': 'has no key "topp"',
    'made["top"].vlaues': 'has no attribute "vlaues"',
    'made["box"].third': 'has no attribute "third"',
    'made["output"].loss': 'has no attribute "loss"',
    'made["output"].hidden_states.sum()': '"None" has no attribute "sum"',
    "model.inptus": 'has no attribute "inptus"; maybe "inputs"?',
    "many_kinds.Nothing": 'Module has no attribute "Nothing"',
}
HEAD = """
import many_kinds
import numpy as np
from numpy.typing import NDArray

def use(x: NDArray[np.float32], model: many_kinds.Model[NDArray[np.float32]]) -> None:
    both = many_kinds.Pair(x, x)
    made = model(x, x, pair=both)
"""


def test_users_code_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPYPATH", str(folder.parent))
    right, wrong = folder.parent / "right.py", folder.parent / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text(HEAD + "".join(f"    {line}\n" for line in WRONG))
    cache = f"--cache-dir={folder.parent / 'cache'}"
    told, crash, _ = api.run(["--strict", "--config-file=", cache, str(right), str(wrong)])
    errors = [line for line in told.splitlines() if ": error: " in line]
    assert not crash and all(line.startswith(str(wrong)) for line in errors), told
    first = HEAD.count("\n") + 1
    for number, words in enumerate(WRONG.values(), first):
        own = [line for line in errors if line.startswith(f"{wrong}:{number}:")]
        assert own and words in own[0], told
