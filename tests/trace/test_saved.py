"""A .pt2 file is data: each way by which torch would run something in it is refused."""

import io
import json
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import aotpack
from aotpack.cli import main
from aotpack.errors import TraceError
from aotpack.trace import load_model, trace

Members = dict[str, bytes]
MODEL, EXAMPLES = "models/model.json", "data/sample_inputs/model.pt"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


class Rich(nn.Module):
    """Weights, a constant, dynamic sizes, branches, texts and nested inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.register_buffer("scale", torch.ones(4), persistent=False)

    def forward(self, x: Tensor, mode: str = "a-b", *, more: dict[str, list[Tensor]]) -> Any:
        y = torch.einsum("ij,kj->ik", self.layer(x) * self.scale, x)
        y = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (y,))
        return {'said "so"': y, "all": [x + more["y"][0], y[: x.shape[0] // 2]]}


class Touch:
    """Pickled, it is a call that makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.fixture(scope="module")
def content() -> bytes:
    file = io.BytesIO()
    program = torch.export.export(
        Rich(),
        (torch.randn(6, 4), "c-d"),
        {"more": {"y": [torch.randn(6, 4)]}},
        dynamic_shapes={
            "x": {0: Dim.DYNAMIC(max=64)},
            "mode": None,
            "more": {"y": [{0: Dim.DYNAMIC(max=64)}]},
        },
    )
    torch.export.save(program, file)
    return file.getvalue()


@pytest.fixture
def saved(content: bytes, tmp_path: Path) -> Path:
    file = tmp_path / "net.pt2"
    file.write_bytes(content)
    return file


def rewritten(file: Path, change: Callable[[Members], None]) -> None:
    with zipfile.ZipFile(file) as archive:
        root = archive.namelist()[0].partition("/")[0]
        members = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{root}/{name}", content)


def program(change: Callable[[Any], None]) -> Callable[[Members, Path], None]:
    """A change of the program's JSON."""

    def made(members: Members, marker: Path) -> None:
        data = json.loads(members[MODEL])
        change(data)
        members[MODEL] = json.dumps(data).replace("MARKER", str(marker)).encode()

    return made


CODE = "__import__('pathlib').Path('MARKER').touch()"


def replaced(old: str, new: str) -> Callable[[Members, Path], None]:
    def change(members: Members, marker: Path) -> None:
        text = members[MODEL].decode()
        assert old in text
        members[MODEL] = text.replace(old, new.replace("MARKER", str(marker))).encode()

    return change


def examples(members: Members, marker: Path) -> None:
    content = io.BytesIO()
    torch.save((Touch(marker),), content)
    members[EXAMPLES] = content.getvalue()


def weights(members: Members, marker: Path) -> None:
    content, config = io.BytesIO(), json.loads(members[WEIGHTS])
    torch.save(Touch(marker), content)
    first = next(iter(config["config"].values()))
    first["use_pickle"] = True
    members[WEIGHTS] = json.dumps(config).encode()
    members[f"data/weights/{first['path_name']}"] = content.getvalue()


def object_(members: Members, marker: Path) -> None:
    config = json.loads(members[CONSTANTS])
    first = next(iter(config["config"].values()))
    first["path_name"] = "opaque_obj_0"
    members[CONSTANTS] = json.dumps(config).encode()
    members["data/constants/opaque_obj_0"] = pickle.dumps(Touch(marker))


def native(members: Members, marker: Path) -> None:
    members["data/aotinductor/model/code.so"] = b"\x7fELF"


def imports(members: Members, marker: Path) -> None:
    (marker.parent / "plants_a_file.py").write_text(f"open({str(marker)!r}, 'w')")
    data = json.loads(members[MODEL])
    for call in data["graph_module"]["module_call_graph"]:
        if call["signature"] and call["fqn"] == "":
            context = {"default_factory_module": "plants_a_file", "default_factory_name": "x"}
            context["dict_context"] = ["y"]
            old = call["signature"]["in_spec"]
            spec = json.loads(old)
            more = spec[1]["children_spec"][1]["children_spec"][0]
            more["type"], more["context"] = "collections.defaultdict", json.dumps(context)
            call["signature"]["in_spec"] = json.dumps(spec)
    members[MODEL] = json.dumps(data).encode()


def file_operator(overload: str) -> Callable[[Members, Path], None]:
    """An operator on the marker's file in place of an activation."""

    def change(data: Any) -> None:
        nodes = data["graph_module"]["graph"]["nodes"]
        node = next(one for one in nodes if one["target"].endswith("relu.default"))
        given = {"filename": {"as_string": "MARKER"}, "shared": {"as_bool": True}}
        given["size"] = {"as_int": 8}
        node["target"] = f"torch.ops.aten.from_file.{overload}"
        node["inputs"] = [{"name": key, "arg": arg, "kind": 1} for key, arg in given.items()]

    return program(change)


SYMBOL = "Symbol('s"
EVIL: dict[str, tuple[Callable[[Members, Path], None], str]] = {
    "example inputs": (examples, rf"{EXAMPLES} names \w[\w.]+, which only a full unpickling reads"),
    "weights": (weights, "with torch.export.load: .*Weights only load failed"),
    "an object": (object_, "opaque_obj_0 is a pickled object"),
    "native code": (native, "code.so is compiled code"),
    "a size": (replaced('"expr_str": "', f'"expr_str": "{CODE} or '), "as expr_str, which may be"),
    "a symbol": (
        replaced(SYMBOL, f"lambdify(Symbol('x'), '{CODE}') or {SYMBOL}"),
        "as expr_str, which may be code",
    ),
    "a guard": (
        program(lambda data: data.update(guards_code=[f"{CODE} is None"])),
        "as guards_code, which may be code",
    ),
    "a placeholder": (
        replaced('"name": "x"', f'"name": "x={CODE}"'),
        "as name, which may be code",
    ),
    "a weight's name": (
        replaced("layer.0.weight", "layer.0.w') or (CODE) or ('"),
        "as .*name, which may be code",
    ),
    "a constant input": (
        replaced('"as_string": "c-d"', f'"as_string": "\' or {CODE} or \'"'),
        "as as_string, which may be code",
    ),
    "an operator": (
        replaced("torch.ops.aten.relu.default", "torch.ops.load_library()"),
        "as target, which may be code",
    ),
    "a file": (file_operator("default"), "from_file.default' as target, which acts outside of its"),
    "a file for a result": (file_operator("out"), "from_file.out' as target, which acts outside"),
    "a seed": (
        replaced("torch.ops.aten.relu.default", "torch.ops.aten.manual_seed.default"),
        "which acts outside of its graph",
    ),
    "a tree": (imports, "as in_spec, which may be code"),
}


@pytest.mark.parametrize("kind", EVIL)
def test_what_torch_would_run_is_refused(
    kind: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    change, words = EVIL[kind]
    marker = tmp_path / "marker"
    rewritten(saved, lambda members: change(members, marker))
    with pytest.raises(TraceError, match=words):
        load_model(str(saved))
    assert not marker.exists()


@pytest.mark.parametrize("kind", ["example inputs", "weights", "a size"])
def test_torch_would_have_run_it(kind: str, saved: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    rewritten(saved, lambda members: EVIL[kind][0](members, marker))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.export.load(saved).module()
        except Exception as error:
            assert error is not None
    assert marker.exists()


@pytest.mark.parametrize("verb", ["build", "show"])
def test_the_command_line_refuses_it(
    verb: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "marker"
    rewritten(saved, lambda members: examples(members, marker))
    out = ["-o", str(tmp_path / "dist"), "--target", "interpreter"] if verb == "build" else []
    assert main([verb, str(saved), *out]) == 1
    assert "without running anything in it" in capsys.readouterr().err
    assert not marker.exists() and not (tmp_path / "dist").exists()


def test_a_rich_program_is_accepted(saved: Path) -> None:
    loaded = load_model(str(saved))
    golden = trace(loaded.module, loaded.args, loaded.kwargs, name="m", version="1").golden
    assert max(golden.eager_errors) < 1e-5


def test_a_setting_of_the_user_does_not_allow_pickles(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    rewritten(saved, lambda members: weights(members, tmp_path / "marker"))
    with pytest.raises(TraceError):
        load_model(str(saved))
    assert not (tmp_path / "marker").exists()
    assert os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1"
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


class Weighed(nn.Module):
    def forward(self, xs: list[torch.Tensor], n: int = 2, *, k: torch.Tensor) -> torch.Tensor:
        return xs[0] * n + xs[1] + k


ONE = torch.randn(3)
UNFITTING = {
    "none": (
        (),
        {},
        "takes 2 arguments by position and k by name, and given are no arg",
    ),
    "too many": (([ONE, ONE], 3, ONE), {"k": ONE}, "given are 3 arguments by position and k by"),
    "another name": (([ONE, ONE], 3), {"kk": ONE}, "given are 2 arguments by position and kk by"),
    "structure": (
        ((ONE, ONE), 3),
        {"k": ONE},
        r"takes \(\[\*, \*\], \*\) .* is \(\(\*, \*\), ",
    ),
    "rank": (([ONE[None], ONE], 3), {"k": ONE}, r"argument 0\[0\] is float32\[1, 3\], and the pro"),
    "type": (([ONE, ONE], 3), {"k": ONE.double()}, r"k is float64\[3\], and .* takes float32\[3\]"),
    "size": (([ONE, ONE], 3), {"k": ONE[:2]}, r"argument k is float32\[2\]"),
    "no tensor": (([ONE, None], 3), {"k": ONE}, r"given is \(\[\*, None\]|\[1\] is None"),
    "another number": (([ONE, ONE], 4), {"k": ONE}, "argument 1 is 4, and the program takes 3"),
    "no number": (([ONE, ONE], "a"), {"k": ONE}, "argument 1 is 'a', and the program takes 3"),
}


@pytest.mark.parametrize("name", UNFITTING)
def test_inputs_that_a_program_does_not_take_are_refused(name: str) -> None:
    program = torch.export.export(Weighed(), ([ONE, ONE], 3), {"k": ONE})
    args, kwargs, words = UNFITTING[name]
    with pytest.raises(TraceError, match=f"tracing model: .*{words}.*Give inputs like those"):
        aotpack.compile(program, args, kwargs=kwargs, target="interpreter")
    assert aotpack.compile(program, ([ONE, ONE], 3), kwargs={"k": ONE}, target="interpreter")
