"""Packages of several methods: one store of weights, state where the model shares it."""

import copy
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import aotpack
from aotpack import Method
from aotpack.cli import main
from aotpack.errors import UsageError
from aotpack.runtime import AotpackError, load
from aotpack.runtime.manifest import read_manifest
from aotpack.runtime.model import Methods
from aotpack.trace.methods import TAKEN

ROWS = 8


class Cached(nn.Module):
    """Prefill writes rows of the state, decode one row, and both derive the same weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(10, 64), nn.BatchNorm1d(64)
        self.proj = nn.Linear(64, 64)
        self.register_buffer("k", torch.zeros(ROWS, 64))

    def row(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.proj(self.embed(ids)))

    def prefill(self, ids: torch.Tensor) -> torch.Tensor:
        rows = self.row(ids)
        self.k[: rows.shape[0]] = rows
        return rows * 2

    def decode(self, token: torch.Tensor, place: torch.Tensor) -> dict[str, torch.Tensor]:
        row = self.row(token)
        self.k.index_copy_(0, place, row)
        return {"seen": self.k.sum(0), "row": row}


class Counter(nn.Module):
    """Counts its calls; equal to others in names, shapes and values."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x)
        return self.count * 1


IDS = torch.tensor([1, 2, 3])
STEP = torch.tensor([4]), torch.tensor([3])
LENGTH = torch.export.Dim("length", min=1, max=ROWS)


def cached(model: nn.Module) -> dict[str, Method]:
    shapes = {"ids": {0: LENGTH}}
    return {
        "prefill": Method(model.prefill, (IDS,), dynamic_shapes=shapes),
        "decode": Method(model.decode, STEP),
    }


def close(found: Any, wanted: torch.Tensor) -> bool:
    return np.allclose(np.asarray(found), wanted.detach().numpy(), atol=1e-5)


@pytest.fixture
def model() -> Cached:
    """The same weights for each test."""
    torch.manual_seed(0)
    return Cached().eval()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    out = tmp_path_factory.mktemp("dist")
    return aotpack.build(cached(Cached().eval()), name="tiny-llm", targets="cpu", out=out)


@pytest.fixture
def package(wheel: Path, tmp_path: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "tiny_llm"


def check_calls(loaded: Any, model: Cached) -> None:
    """Calls and refused calls give the results and the state of eager."""
    assert close(loaded.prefill(IDS), model.prefill(IDS))
    found, wanted = loaded.decode(*STEP), model.decode(*STEP)
    assert close(found["seen"], wanted["seen"]) and close(found["row"], wanted["row"])
    assert [*loaded.state] == ["k"] and close(loaded.state["k"].numpy(), model.k)
    with pytest.raises(AotpackError, match=r"calling \w+.decode: argument 'place' is missing"):
        loaded.decode(STEP[0])
    with pytest.raises(AotpackError, match=r"calling \w+.prefill: argument 'ids'"):
        loaded.prefill(torch.zeros(ROWS + 1, dtype=torch.int64))
    assert close(loaded.state["k"].numpy(), model.k)


def test_state_goes_from_one_method_to_the_other(package, model):
    with load(package, "cpu") as loaded:
        check_calls(loaded, model)


def test_kernels_of_gpus_share_state(model):
    loaded = aotpack.compile(cached(model), target="interpreter")
    check_calls(loaded, model)
    loaded.close()


def test_equal_names_shapes_and_values_share_nothing():
    first, second, x = Counter(), Counter(), torch.ones(4)
    methods = {"a": first, "b": second, "again": first}
    loaded = aotpack.compile({n: Method(one, (x,)) for n, one in methods.items()}, target="cpu")
    assert loaded.a(x).tolist() == [1] * 4 and loaded.b(x).tolist() == [1] * 4
    assert loaded.a(x).tolist() == [2] * 4 and loaded.again(x).tolist() == [3] * 4
    assert loaded.b(x).tolist() == [2] * 4
    assert sorted(loaded.state) == ["a.count", "b.count"]


def test_weights_are_bound_once_for_all_methods(package, model):
    loaded = load(package, "cpu")
    with torch.no_grad():
        model.proj.weight.mul_(3)
        model.norm.running_var.add_(1)
    loaded.bind_weights({name: one.clone() for name, one in model.state_dict().items()})
    assert close(loaded.prefill(IDS), model.prefill(IDS))
    assert close(loaded.decode(*STEP)["seen"], model.decode(*STEP)["seen"])
    with pytest.raises(AotpackError, match="'decode.proj.weight' is no weight of the model"):
        loaded.bind_weights({"decode.proj.weight": model.proj.weight}, strict=False)


def test_weights_that_both_derive_are_computed_and_stored_once(package):
    manifest = read_manifest(package)
    own = [one.derived for one in manifest.entries.values()]
    assert [len(one) for one in own] == [1, 1]
    with load(package, "cpu") as model:
        (stored,) = model.manifest.derived
        launches = model._held.parts.weight_program._plan.launches
        assert [len(place) for place in launches].count(1) == 1
        once = sum(weight.size for weight in manifest.weights) + stored.bytes
        assert model.memory <= once + manifest.peak_bytes + 256 * len(manifest.weights)


@pytest.mark.parametrize("target", ["sm_90", "cpu"])
def test_kernels_that_are_equal_are_stored_once(target, tmp_path):
    def files(*names: str) -> dict[str, int]:
        methods = {name: Method(parts[name], (x,)) for name in names}
        wheel = aotpack.build(methods, targets=target, out=tmp_path)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path)
            kernels = [one for one in archive.infolist() if "/kernels/" in one.filename]
        manifest = read_manifest(tmp_path / "model")
        assert [*manifest.methods] == [*names]
        return {one.filename: one.CRC for one in kernels}

    torch.manual_seed(0)
    x, last = torch.randn(4, 64), {"first": nn.ReLU(), "second": nn.ReLU(), "third": nn.Tanh()}
    parts = {name: nn.Sequential(nn.Linear(64, 64), one).eval() for name, one in last.items()}
    alone = files("first")
    assert files("first", "second") == alone and alone
    assert files("first", "third") != alone


def test_arenas_and_the_lock_are_common(package):
    with load(package, "cpu") as model:
        model.prefill(IDS.numpy())
        model.decode(*(one.numpy() for one in STEP))
        assert len(model._held.pool._arenas) == 1
        assert max(one.memory for one in model.methods.values()) <= model.memory
    with pytest.raises(AotpackError, match="tiny_llm: the model was closed"):
        model.decode(*(one.numpy() for one in STEP))


def test_a_method_keeps_the_memory_of_a_package_that_is_gone(package):
    decode = load(package, "cpu").decode
    assert np.isfinite(decode(*(one.numpy() for one in STEP))["seen"]).all()


def test_calls_say_which_method(package):
    with load(package, "cpu") as model:
        assert repr(model) == "<Model tiny_llm with decode, prefill on cpu>"
        assert str(model.signature["decode"]).startswith("tiny_llm.decode(token: int64[1], place")
        assert f"'decode': {model.signature['decode']}" in str(model.signature)
        assert [one.name for one in model.inputs["prefill"]] == ["ids"]
        told = r"it has several methods; call model.decode\(...\) or model.prefill\(...\)"
        with pytest.raises(AotpackError, match=told):
            model(IDS)
        with pytest.raises(AttributeError, match="no attribute 'prefil'; did you mean 'prefill'"):
            model.prefil(IDS)
        with pytest.raises(AttributeError, match="'nothere'; its methods are decode, prefill$"):
            model.nothere(IDS)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            for one in (model, model.decode):
                with pytest.raises(AotpackError, match="copying tiny_llm: .*Load the package once"):
                    copied(one)


def test_no_attribute_of_a_package_is_hidden():
    attributes = {name for name in dir(Methods) if not name.startswith("_")}
    assert attributes | {"device", "manifest", "methods", "targets"} <= TAKEN


def test_commands_treat_each_method(wheel, tmp_path, capsys):
    assert main(["verify", str(wheel), "--device", "cpu"]) == 0
    told = capsys.readouterr().out
    assert all(f"{what}: largest error" in told for what in ("decode: seen", "prefill: state k"))
    assert main(["inspect", str(wheel)]) == 0
    told = capsys.readouterr().out
    assert "method    tiny_llm.prefill(ids: int64[length]) -> float32[length, 64]" in told
    assert "memory    decode: " in told
    assert "moved     decode: " in told and "moved     prefill: " in told
    assert main(["bench", str(wheel), "--device", "cpu", "--repeat", "1"]) == 0
    assert "tiny_llm.decode: " in capsys.readouterr().out


MODEL = """
import torch
from torch import nn
from aotpack import Method

class Pair(nn.Module):
    def add(self, x):
        return x + 1

    def double(self, x):
        return x * 2

pair = Pair()
x = torch.ones(4)
methods = {"add": Method(pair.add, (x,)), "double": Method(pair.double, (x,))}
"""


def test_a_model_file_defines_methods(tmp_path, capsys):
    file = tmp_path / "pair.py"
    file.write_text(MODEL)
    assert main(["show", str(file), "--stage", "lowered", "--method", "double"]) == 0
    told = capsys.readouterr().out
    assert "lowered of double" in told and "lowered of add" not in told
    assert main(["show", str(file), "--method", "triple"]) == 2
    assert "no method has that name; accepted are add, double" in capsys.readouterr().err
    assert main(["show", str(file), "--dynamic", "x:0=n"]) == 2
    assert "pair.py has several methods; give each its own" in capsys.readouterr().err


def test_weights_are_no_model():
    with pytest.raises(UsageError, match="a dict of tensors, .*, is no model; give the module"):
        aotpack.compile(nn.Linear(2, 2).state_dict(), (torch.ones(2),), target="cpu")


def test_examples_beside_methods_are_refused():
    with pytest.raises(UsageError, match="example inputs are given beside methods"):
        aotpack.compile({"a": Method(Counter(), (torch.ones(4),))}, (torch.ones(4),), target="cpu")
