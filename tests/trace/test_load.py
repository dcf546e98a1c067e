"""MODEL files: every accepted form, and one error for each way to get it wrong."""

import textwrap

import pytest
import torch
from torch import nn

import aotpack
from aotpack.errors import TraceError, UsageError
from aotpack.trace import load_model

HEAD = """
import torch
from torch import nn
"""
INPUTS = "example_inputs = (torch.zeros(2, 4),)\n"
MODEL = "model = nn.Linear(4, 4)\n"


@pytest.fixture
def write(tmp_path):
    def write(body, name="my-net.py"):
        path = tmp_path / name
        path.write_text(HEAD + textwrap.dedent(body))
        return str(path)

    return write


@pytest.mark.parametrize(
    ("body", "attr", "positional", "keywords"),
    [
        (MODEL + INPUTS, "", 1, []),
        ("def get_model(): return nn.ReLU()\n" + INPUTS, "", 1, []),
        (
            MODEL + "def get_inputs(): return {'input': torch.zeros(2, 4)}\n",
            "",
            0,
            ["input"],
        ),
        (MODEL + INPUTS + "example_kwargs = {'scale': 2}\n", "", 1, ["scale"]),
        (MODEL + "example_kwargs = {'input': torch.zeros(2, 4)}\n", "", 0, ["input"]),
        ("net = nn.ReLU()\n" + INPUTS, ":net", 1, []),
        ("def make(): return nn.ReLU()\n" + INPUTS, ":make", 1, []),
    ],
)
def test_file(write, body, attr, positional, keywords):
    loaded = load_model(write(body) + attr)
    assert (len(loaded.args), list(loaded.kwargs)) == (positional, keywords)
    assert (loaded.name, loaded.version, loaded.dynamic_shapes) == (
        "my_net",
        "0.1.0",
        None,
    )


def test_what_the_file_says(write):
    loaded = load_model(
        write(MODEL + INPUTS + "name='a'; version='2'; dynamic_shapes={'input': {}}")
    )
    assert (loaded.name, loaded.version, loaded.dynamic_shapes) == (
        "a",
        "2",
        {"input": {}},
    )


def test_file_imports_its_neighbour(write):
    write("WIDTH = 4\n", "neighbour_settings.py")
    load_model(write("from neighbour_settings import WIDTH\n" + MODEL + INPUTS))


def test_package(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(MODEL + INPUTS, "net_in_package.py")
    assert load_model("net_in_package:model").name == "net_in_package"


def test_saved_program(tmp_path):
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(2),))
    torch.export.save(program, tmp_path / "net.pt2")
    assert len(load_model(str(tmp_path / "net.pt2")).args) == 1


@pytest.mark.parametrize(
    ("body", "attr", "message"),
    [
        (INPUTS, "", "it defines no model or get_model; define model"),
        ("net = nn.ReLU()\n" + INPUTS, "", "or methods = ..., or give .*my-net.py:net"),
        (MODEL + "def get_inputs(): return None\n", "", r"get_inputs\(\) returns None; let it"),
        (MODEL + INPUTS, ":net", "it defines no net; check the name after the colon"),
        (MODEL, "", "it defines no example inputs; define"),
        (MODEL + "example_input = 1\n", "", "no example inputs, but example_input; define"),
        ("Model = 1\n" + INPUTS, "", "no model or get_model, but Model; define model"),
        ("model = 3\n" + INPUTS, "", "model is an int; a torch.nn.Module instance"),
        ("model = nn.ReLU\n" + INPUTS, "", "model is the class ReLU"),
        ("def model(x): return x\n" + INPUTS, "", "takes arguments, and is a function; .* forward"),
        ("def get_model(n): return n\n" + INPUTS, "", r"of your choice: model = get_model\("),
        ("def model(): return max\n" + INPUTS, "", "model returns a builtin.*; .* forward"),
        (
            "model = nn.Linear(2, 2).state_dict()\n" + INPUTS,
            "",
            r"model is an OrderedDict; .* These are weights: .* load_state_dict\(...\)",
        ),
        (
            "model = {'up': nn.ReLU()}\n" + INPUTS,
            "",
            "model is a dict; .* Several entries are given as methods = {'decode': aotpack.Method",
        ),
        (
            MODEL + "example_inputs = torch.zeros(2)\n",
            "",
            "example_inputs is a Tensor; a tuple",
        ),
        (
            MODEL + "example_inputs = {'input': torch.zeros(2)}; example_kwargs = {}\n",
            "",
            "example_inputs is a dict and example_kwargs a dict; a tuple",
        ),
        (MODEL + INPUTS + "example_kwargs = 3\n", "", "and example_kwargs an int; a tuple"),
        (
            "x = 1 / 0\n",
            "",
            r"ZeroDivisionError: division by zero\n  at my-net.py:4: x = 1 / 0",
        ),
        ("import no_such_thing\n", "", "No module named 'no_such_thing'"),
        ("import sys; sys.exit(3)\n", "", "SystemExit: 3"),
        (
            "def get_model(): return nn.Lin()\n" + INPUTS,
            "",
            "at my-net.py:4: def get_model",
        ),
        ("model = (\n", "", r"SyntaxError: '\(' was never closed .*, line 4\)\n  model = \("),
    ],
)
def test_refuses(write, body, attr, message):
    with pytest.raises(TraceError, match=message):
        load_model(write(body) + attr)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("methods = [1]\n", "methods is a list; a dict is accepted: {'decode': aotpack.Method"),
        (MODEL + INPUTS + "version = 1.10\n", "version is 1.1; text is accepted, such as '1.10'"),
    ],
)
def test_refuses_values_of_other_types(write, body, message):
    with pytest.raises(UsageError, match=message):
        load_model(write(body))


def test_other_lists_of_methods_are_the_files_own(write):
    assert isinstance(load_model(write(MODEL + INPUTS + "methods = [1]\n")).module, torch.nn.Linear)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "dynamic_shape = None",
            "dynamic_shape, which nothing reads; did you mean 'dynamic_shapes'",
        ),
        ("DYNAMIC_SHAPES = None", "DYNAMIC_SHAPES, .*did you mean 'dynamic_shapes'"),
        (
            "example_kwarg = {}",
            "example_kwarg, .*did you mean 'example_kwargs'.* begin other names",
        ),
    ],
)
def test_names_that_are_almost_read_are_refused(write, line, words):
    with pytest.raises(UsageError, match=words):
        load_model(write(f"{MODEL}{INPUTS}{line}\n"))
    loaded = load_model(write(f"{MODEL}{INPUTS}_{line}\nexample_args, shapes = 1, 2\n"))
    assert loaded.dynamic_shapes is None


@pytest.mark.parametrize("spec", ["no/such.py", "no/such.pt2", "no/such.py:model"])
def test_refuses_a_missing_file(spec):
    with pytest.raises(UsageError, match="no such file"):
        load_model(spec)


def test_refuses_a_damaged_program(tmp_path):
    (tmp_path / "net.pt2").write_bytes(b"not a zip")
    with pytest.raises(TraceError, match="with torch.export.load"):
        load_model(str(tmp_path / "net.pt2"))


def test_refuses_folders_and_wheels_in_words(tmp_path):
    with pytest.raises(UsageError, match="it is a folder; model.py, model.py:attr"):
        load_model(str(tmp_path))
    with pytest.raises(UsageError, match="a wheel is a package already; aotpack inspect, verify"):
        load_model("net-1.0-py3-none-any.whl")


@pytest.mark.parametrize("spec", ["model", "model.tf", "a b:c", ""])
def test_refuses_another_form(spec):
    with pytest.raises(UsageError, match="not understood; model.py, model.py:attr"):
        load_model(spec)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("end", [".pt", ".pth", ".model"])
def test_files_of_torch_are_told_apart(tmp_path, end):
    model, path = torch.nn.Linear(2, 2), tmp_path / f"net{end}"
    torch.save(model.state_dict(), path)
    with pytest.raises(
        UsageError, match="it has weights, or a module that was pickled, .*model.py"
    ):
        load_model(str(path))
    torch.jit.script(model).save(path)
    with pytest.raises(UsageError, match="a TorchScript file has no module .*model.py"):
        load_model(str(path))
    torch.export.save(torch.export.export(model, (torch.randn(3, 2),)), path)
    with pytest.raises(UsageError, match="written by torch.export.save; name it net.pt2"):
        load_model(str(path))
    path.rename(tmp_path / "net.pt2")
    assert load_model(str(tmp_path / "net.pt2")).name == "net"


@pytest.mark.parametrize("end", [".py", ".pt2", ".txt"])
def test_a_forgotten_ending_is_named_where_there_is_such_a_file(tmp_path, end):
    (tmp_path / f"net{end}").touch()
    with pytest.raises(UsageError, match="MODEL .*net: not understood") as told:
        load_model(str(tmp_path / "net"))
    is_model = end != ".txt"
    assert str(told.value).endswith(f"; did you mean '{tmp_path}/net{end}'?") is is_model


LIBRARY = """
def build():
    try:
        import a_package_that_is_not_there
    except ImportError as error:
        raise RuntimeError("Failed because of the following error:\\n" + str(error)) from error
"""


def test_the_root_of_an_error_is_told(write):
    write(LIBRARY, "library_with_a_cause.py")
    spec = write("import library_with_a_cause\nmodel = library_with_a_cause.build()\n" + INPUTS)
    words = (
        r"RuntimeError: Failed because of the following error:\n  No module named 'a_package_that_"
        r"is_not_there'\n  at my-net.py:\d+: model = .*\n"
        r"  caused by ModuleNotFoundError: No module named 'a_package_that_is_not_there'\n"
        r"  at library_with_a_cause.py:\d+: import a_package_that_is_not_there$"
    )
    with pytest.raises(TraceError, match=words):
        load_model(spec)


def test_a_terminal_is_not_told_what_to_do(write):
    with pytest.raises(TraceError) as caught:
        load_model(write("raise ValueError('\\x1b[2J\\x07 red')\n"))
    assert r"ValueError: \x1b[2J\x07 red" in str(caught.value)


class Training(nn.Module):
    def forward(self, x):
        return x + 1 if self.training else x * 2


class ReturningNothing(Training):
    def train(self, mode=True):
        super().train(mode)


class Hiding(Training):
    def __init__(self):
        super().__init__()
        self.eval = False


@pytest.mark.parametrize("kind", [ReturningNothing, Hiding])
def test_a_module_whose_eval_returns_nothing(kind):
    x = torch.ones(4)
    assert torch.equal(aotpack.compile(kind(), (x,), target="interpreter")(x), x * 2)


def test_a_module_that_is_not_there_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="MODEL no_such.part: Python finds no module no_such in"):
        load_model("no_such.part:model")
    with pytest.raises(UsageError, match="MODEL net.onnx: ONNX is not read; give the nn.Module"):
        load_model("net.onnx")
