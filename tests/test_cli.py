"""The command line from outside: one message, the right exit code, nothing left behind."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from aotpack.cli import main
from aotpack.commands import doctor
from aotpack.schedule import PASSES

MODEL = """
import torch

class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.arange(8.0))

    def forward(self, x):
        return torch.relu(x * 0.5 + self.bias)

model = Half()
example_inputs = (torch.linspace(-9, 9, 32).reshape(4, 8),)
name = "half"
"""
OTHER = MODEL.replace("0.5", "0.75")
LINE = """
import torch

torch.manual_seed(0)
model, example_inputs = torch.nn.Linear(8, 8), (torch.linspace(-1, 1, 32).reshape(4, 8),)
dynamic_shapes = {"input": {0: torch.export.Dim("batch", min=1, max=64)}}
"""
THREE_STEPS = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(1))
example_inputs = (torch.randn(4, 8),)
"""
APART = """
import torch

class Separate(torch.nn.Module):
    def forward(self, x, y, z):
        return RESULTS

model, example_inputs = Separate(), (torch.ones(4, 8), torch.ones(8, 4), torch.ones(16, 16))
"""
TWO_PRODUCTS = MODEL.replace("x * 0.5 + self.bias", "x @ x.T @ x")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli")
    (place / "half_model.py").write_text(MODEL)
    (place / "other_model.py").write_text(OTHER)
    return place


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    """A wheel of the model, built by the command line."""
    words = [str(folder / "half_model.py"), "-o", str(folder / "dist"), "--target", "sm_80,sm_90"]
    assert main([*words, "--dynamic", "x:0=batch[1:64]", "--version", "1.2"]) == 0
    return folder / "dist" / "half-1.2-py3-none-any.whl"


def failed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and standard error of a command line."""
    try:
        code = main(words)
    except SystemExit as error:
        code = int(str(error.code))
    return code, capsys.readouterr().err


def test_the_build_leaves_one_wheel_and_its_provenance(wheel: Path) -> None:
    left = sorted(path.name for path in wheel.parent.iterdir())
    assert left == [wheel.name, f"{wheel.name}.provenance.json"]


@pytest.mark.parametrize(
    ("name", "place"),
    [("half", None), ("Other-model", "other_model.py")],
)
def test_a_name_that_the_model_file_shadows_is_noted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, place: str | None
) -> None:
    words = [str(folder / "half_model.py"), "-o", str(tmp_path), "--target", "sm_90"]
    assert main([*words, "--name", name]) == 0
    told = capsys.readouterr().out
    expected = (
        f"note: 'Other-model' is imported as other_model\nnote: in {folder.resolve()}, "
        f"`import other_model` takes {place} instead"
    )
    assert (expected in told) if place else ("note:" not in told)


@pytest.mark.row("C:L5")
def test_inspect_prints_facts_and_kernels(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(wheel)]) == 0
    printed = capsys.readouterr().out
    assert "half 1.2" in printed
    assert "batch in 1 to 64" in printed and " bytes, embed" in printed
    assert "target  kernel" in printed and "\nsm_90   " in printed
    header, *_, row = printed.partition("target  kernel")[2].splitlines()
    assert header.split()[-2:] == ["moved", "us"]
    assert row.split()[-2:] == [str(2 * 32 * 4 + 8 * 4), "1.5"]
    (moved,) = (line for line in printed.splitlines() if line.startswith("moved "))
    assert moved.split(maxsplit=1)[1] == (
        "288 bytes at least in a call, at the example's sizes: sm_80, sm_90"
    )


@pytest.mark.row("C:B21", "C:I2")
def test_inspect_prints_json_and_source(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(wheel), "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    kernel = next(iter(kernels))
    assert main(["inspect", str(wheel), "--kernel", kernel]) == 0
    assert f"def {kernel}(" in capsys.readouterr().out


def test_inspect_writes_a_report(wheel: Path, tmp_path: Path) -> None:
    report, again = tmp_path / "report.html", tmp_path / "again.html"
    assert main(["inspect", str(wheel), "--html", str(report)]) == 0
    text = report.read_text()
    assert text.startswith("<!doctype html>") and "@triton.jit" in text
    assert "http" not in text and "<script" not in text
    assert main(["inspect", str(wheel), "--html", str(again)]) == 0
    assert again.read_bytes() == report.read_bytes()


class Page(HTMLParser):
    """The texts of elements by their kind; each element that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]][-1] += data


def test_inspect_for_a_processor(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kernel has its own functions and machine code; what all share stands once."""
    (folder / "three_steps.py").write_text(THREE_STEPS)
    assert main([str(folder / "three_steps.py"), "-o", str(tmp_path), "--target", "cpu"]) == 0
    (wheel,) = tmp_path.glob("*.whl")
    capsys.readouterr()
    assert main(["inspect", str(wheel)]) == 0
    _, table = capsys.readouterr().out.split("\n\n")
    header, *rows = map(str.split, table.splitlines())
    assert header == ["target", "kernel", "bytes", "moved"]
    names, sizes = [row[1] for row in rows], [int(row[2]) for row in rows]
    assert len(names) == 3 and min(sizes) > 300 and len({*sizes}) > 1
    with zipfile.ZipFile(wheel) as archive:
        (code,) = (info for info in archive.infolist() if info.filename.endswith(".so"))
    assert sum(sizes) < code.file_size
    own = {}
    for name in names:
        assert main(["inspect", str(wheel), "--kernel", name]) == 0
        own[name] = capsys.readouterr().out
        assert re.findall(r"^AOT_EXPORT int (\w+)\(", own[name], re.MULTILINE) == [name]
    assert main(["inspect", str(wheel), "--html", str(tmp_path / "page.html")]) == 0
    page = Page((tmp_path / "page.html").read_text())
    assert page.texts["pre"][:-1] == [own[name] for name in sorted(names)]
    assert (
        page.texts["pre"][-1].count("aot_pool")
        and "AOT_EXPORT int linear" not in page.texts["pre"][-1]
    )
    assert page.texts["summary"] == [*sorted(names), "what kernels/source/kernels.c share"]


CODED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(32, 8))
example_inputs = (torch.randn(2, 64),)
name = "coded"
"""


@pytest.mark.parametrize(
    ("options", "row"),
    [
        (["--quantize", "int8"], "int8, a scale for each row: 0.weight, 1.weight"),
        (["--quantize", "int4:group=16"], "int8, a scale for each 8 bytes: 0.weight, 1.weight"),
        (["--quantize", "fp8"], "float8_e4m3fn, a scale for each row: 0.weight, 1.weight"),
        ([], ""),
    ],
)
def test_inspect_tells_weights_that_are_codes(
    options: list[str], row: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "coded.py").write_text(CODED)
    words = [str(tmp_path / "coded.py"), "-o", str(tmp_path), "--target", "cpu", *options]
    assert main(words) == 0
    (built,) = tmp_path.glob("*.whl")
    capsys.readouterr()
    assert main(["inspect", str(built)]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("codes")]
    assert [" ".join(line.split()) for line in rows] == ([f"codes {row}"] if row else [])


def test_an_unknown_kernel_is_refused(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = failed(capsys, "inspect", str(wheel), "--kernel", "nothing")
    assert code == 2 and "has no kernel 'nothing'; it has " in error


@pytest.mark.row("S:inv45")
def test_verify_in_the_interpreter(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(wheel), "--device", "interpreter"]) == 0
    printed = capsys.readouterr().out
    assert "allowed" in printed and "no file written" in printed
    assert [line for line in printed.splitlines() if line.startswith("on ")] == [
        "on interpreter, as sm_80:",
        "on interpreter, as sm_90:",
    ]


def test_verify_says_where_it_ran(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(folder / "half_model.py"), "-o", str(tmp_path), "--target", "cpu"]
    assert main(words) == 0
    (built,) = tmp_path.glob("*.whl")
    for device in ([], ["--device", "cpu"]):
        capsys.readouterr()
        assert main(["verify", str(built), *device]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert [line for line in printed if line.startswith("on ")] == printed[:1] == ["on cpu:"]


def test_bench_says_what_it_times(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["build", str(folder / "half_model.py"), "-o", str(tmp_path), "--target", "cpu"]) == 0
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert "\ncompile C kernels (1 in one file)\nemit\n" in capsys.readouterr().err
    assert main(["bench", str(wheel), "--repeat", "2", "--device", "cpu"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "timing 2 calls on cpu, after 5 to warm up"
    assert re.fullmatch(r"half: [0-9.]+ ms per call \(of 2 calls\)", second)
    with pytest.raises(SystemExit):
        main(["bench", str(wheel), "--repeat", "0"])
    assert "found '0', accepted is a whole number from 1" in capsys.readouterr().err


def test_verify_against_the_model(wheel: Path, folder: Path) -> None:
    words = ["verify", str(wheel), "--device", "interpreter", "--against"]
    assert main([*words, str(folder / "half_model.py")]) == 0


def test_verify_against_another_model_fails(
    wheel: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", str(wheel), "--device", "interpreter", "--against"]
    code, error = failed(capsys, *words, str(folder / "other_model.py"))
    assert code == 1 and "failed the checks" in error


def test_verify_against_a_model_with_other_inputs_is_refused(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "renamed.py"
    other.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Other(nn.Module):\n"
        "    def forward(self, another):\n        return another + 1\n\n\n"
        "model, example_inputs = Other(), (torch.zeros(2, 3),)\n"
    )
    words = ["verify", str(wheel), "--device", "interpreter", "--against", str(other)]
    code, error = failed(capsys, *words)
    assert code == 2 and "its inputs are" in error and "another" in error


@pytest.mark.parametrize("mode", ["sidecar", "none"])
def test_weights_apart_are_found_beside_the_wheel_or_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    model = tmp_path / "line.py"
    model.write_text(LINE)
    words = [str(model), "-o", str(tmp_path), "--target", "cpu", "--candidates", "2"]
    words += ["--dynamic", "input:0=rows[2:8]"]
    assert main([*words, "--weights", "sidecar"]) == 0
    beside = tmp_path / "line-0.1.0.weights.safetensors"
    told = capsys.readouterr().out
    assert f"{beside}  {beside.stat().st_size:,} bytes, its weights" in told
    assert "note: --dynamic input:0=rows[2:8] replaces batch[1:64], which the model file" in told
    assert "note: the size 'rows' is called 'rows_' in the signature" in told
    assert "is replaced" not in told
    if mode == "none":  # over the wheel, as its name is the same
        assert main([*words, "--weights", "none"]) == 0
        told = capsys.readouterr().out
        assert "its weights" not in told and ".whl that was there is replaced" in told
    (wheel,) = tmp_path.glob("*.whl")
    checks = (
        ["verify", str(wheel), "--device", "cpu"],
        ["bench", str(wheel), "--device", "cpu", "--repeat", "1"],
        ["tune", str(wheel), "--device", "cpu", "-o", str(tmp_path / "tuning.json")],
    )
    if mode == "sidecar":
        assert [main(check) for check in checks] == [0, 0, 0]
        code, error = failed(capsys, *checks[0][:2], "--device", "interpreter")
        assert code == 2 and "built for cpu alone, whose kernels are C; give --device cpu" in error
        code, error = failed(capsys, *checks[1][:2], "--device", "gpu")
        assert code == 2 and "device='gpu'; accepted: a GPU's number" in error
    elsewhere = beside.rename(tmp_path / "elsewhere.safetensors")
    complaint = {
        "sidecar": f"its weights travel beside it, and there is no {beside}; ",
        "none": "built with --weights none; give its 2 weights ('weight' is the first) with ",
    }
    for check in checks:
        code, error = failed(capsys, *check)
        assert code == 2 and complaint[mode] in error and "--weights FILE" in error
        assert main([*check, "--weights", str(elsewhere)]) == 0
        code, error = failed(capsys, *check, "--weights", str(beside))
        assert code == 2 and f"--weights: {beside}: no such file; a safetensors file" in error


def test_a_wheel_has_the_weights_of_its_build(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same, other = tmp_path / "same.safetensors", tmp_path / "other.safetensors"
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith("/weights.safetensors"))
        same.write_bytes(archive.read(name))
    save_file(load_file(same), other, metadata={"made": "by hand"})
    check = ["verify", str(wheel), "--device", "interpreter", "--weights"]
    assert main([*check, str(same)]) == 0
    code, error = failed(capsys, *check, str(other))
    assert code == 1 and f"{other} is another file than that of the build: " in error
    assert "Other weights, or the same in another file, are verified in a package that was" in error


@pytest.mark.parametrize("keep", [0.5, 0.98])
def test_a_cut_wheel_is_refused(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], keep: float
) -> None:
    cut = tmp_path / wheel.name
    cut.write_bytes(wheel.read_bytes()[: int(wheel.stat().st_size * keep)])
    code, error = failed(capsys, "verify", str(cut), "--device", "interpreter")
    assert code == 1 and "the file is damaged" in error


def test_a_changed_file_is_refused(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            new.writestr(item, data + b"# more\n" if item.filename.endswith("plan.py") else data)
    code, error = failed(capsys, "verify", str(changed), "--device", "interpreter")
    assert code == 1 and "plan.py does not fit its entry in RECORD" in error


@pytest.mark.parametrize("verb", ["inspect", "verify", "bench"])
@pytest.mark.parametrize("name", ["half_model.py", "half_model.py:model"])
def test_a_model_in_the_place_of_a_wheel_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str, name: str
) -> None:
    code, error = failed(capsys, verb, str(folder / name))
    assert code == 2 and "a wheel is accepted, which aotpack MODEL -o DIR builds" in error


def test_other_wheels_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other-1-py3-none-any.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("other/__init__.py", "")
    code, error = failed(capsys, "inspect", str(other))
    assert code == 2 and "no aotpack package" in error


@pytest.mark.row("S:K15", "S:inv25")
def test_show_says_why_operations_share_no_kernel(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["show", str(folder / "two_products.py"), "--stage", "scheduled"]
    (folder / "two_products.py").write_text(TWO_PRODUCTS)
    assert main([*command, "--why"]) == 0
    shown = capsys.readouterr().out
    assert main(command) == 0
    plain = capsys.readouterr().out
    (why,) = shown.removeprefix(plain).splitlines()
    assert shown.startswith(plain)
    assert why == (
        "matmul_1 is not in the kernel of matmul: "
        "a product, attention, scatter, foreign call, branch or loop starts a new kernel"
    )


def test_show_says_why_and_no_more(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "two_products.py").write_text(TWO_PRODUCTS)
    assert main(["show", str(folder / "two_products.py"), "--why"]) == 0
    (why,) = capsys.readouterr().out.splitlines()
    assert why.startswith("matmul_1 is not in the kernel of matmul: ")


@pytest.mark.parametrize(
    ("results", "told"),
    [
        ("x @ y, z @ z", "no reason is recorded why the 2 kernels are apart\n"),
        ("x * 2", "all operations share one kernel\n"),
    ],
)
def test_show_says_that_there_is_no_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], results: str, told: str
) -> None:
    (tmp_path / "apart.py").write_text(APART.replace("RESULTS", results))
    assert main(["show", str(tmp_path / "apart.py"), "--why"]) == 0
    assert capsys.readouterr().out == told


def test_show_prints_the_tiles_of_the_target(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def tiles(*words: str) -> set[str]:
        assert main(["show", str(folder / "half_model.py"), "--stage", "scheduled", *words]) == 0
        return set(re.findall(r"for arch (\d+) to", capsys.readouterr().out))

    assert tiles("--target", "cpu") == {"0"}
    assert "0" not in tiles("--target", "sm_90")
    assert "0" in tiles("--target", "sm_90,cpu") and "0" in tiles()


def test_show_prints_the_stage_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(folder / "half_model.py"), "--stage", "traced"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("model half 0.1.0\n") and "aten.relu" in printed
    assert "triton" not in printed


def passes_titled(name: str) -> list[str]:
    """What the passes of a name are called in dumps."""
    return [f"03_{number:02}_{name}" for number, one in enumerate(PASSES, 1) if one.name == name]


def test_show_prints_what_a_pass_hands_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(folder / "half_model.py"), "--after", "fuse"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == f"# ======== {passes_titled('fuse')[0]}"
    assert [line for line in lines if line.startswith("kernel ")]
    assert not any("tile " in line or "triton" in line for line in lines)
    assert main(["show", str(folder / "half_model.py"), "--after", "remove_dead_code"]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("# ====")]
    assert heads == [f"# ======== {title}" for title in passes_titled("remove_dead_code")]


def test_a_pass_that_is_none_is_answered_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, error = failed(capsys, "show", "no_such_model.py", "--after", "fuze")
    assert code == 2
    assert "--after fuze: no pass has that name; accepted are remove_dead_code, " in error
    assert ", fuse, " in error and error.count("\n") == 1
    assert error.endswith("; did you mean 'fuse'?\n")
    _, error = failed(capsys, "show", "no_such_model.py", "--after", "xyzzy")
    assert "no pass has that name" in error and "did you mean" not in error
    code, error = failed(capsys, "show", "m.py", "--after", "fuse", "--stage", "lowered")
    assert code == 2 and "not allowed with" in error


def test_doctor_names_versions_and_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "triton" in printed and "ptxas" in printed and "sm_120, cpu, interpreter" in printed
    assert re.search(r"^c compiler   (cc|gcc|clang) .*[0-9]", printed, re.MULTILINE)
    assert main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["missing"] == [] and "sm_120" in facts["targets"] and "torch" in facts["found"]
    assert main(["doctor", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["doctor", "--verbose"]) == 0
    assert sys.executable in capsys.readouterr().out


def test_doctor_finds_what_is_too_old(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"setuptools": "65.5.0"}
    monkeypatch.setattr(doctor, "version", lambda name: old.get(name) or version(name))
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "missing: setuptools>=77: pip install 'setuptools>=77'" in printed
    monkeypatch.setattr(doctor, "requires", lambda name: None)
    assert main(["doctor"]) == 0


def test_doctor_without_a_c_compiler_leaves_out_the_target_cpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTPACK_CC", "no-such-compiler")
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "none, so not the target cpu: compiling for cpu: no C compiler was found" in printed
    assert "sm_120, interpreter" in printed


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["MODEL", "-o", "OUT", "--target", "sm_70"],
            "'sm_70' is not supported; accepted are sm_80",
        ),
        (["MODEL", "-o", "MODEL"], "it is a file; a folder, existing or new, is accepted"),
        (["MODEL", "-o", "MODEL/dist"], "is no folder that this user can write to"),
        (["MODEL", "-o", "OUT", "--jobs", "0"], "found '0', accepted is a whole number from 1"),
        (
            ["MODEL", "-o", "OUT", "--weights", "no"],
            "found 'no', accepted are embed, sidecar, none",
        ),
        (["MODEL", "-o", "OUT", "--weights", "sidcar"], "did you mean 'sidecar'?"),
        (["MODEL", "-o", "OUT", "--dtype", "bf16"], "did you mean 'bfloat16'?"),
        (["MODEL", "-o", "OUT", "--target", "sm90"], "did you mean 'sm_90'?"),
        (["MODEL", "-o", "OUT", "--target", "RTX-4090"], "did you mean 'sm_89'?"),
        (["MODEL", "-o", "OUT", "--target", "v100"], "v100 has the compute capability 7.0"),
        (["MODEL", "--ot", "OUT"], "there is no option --ot; did you mean '--out'?"),
        (["MODEL", "-o", "OUT", "more"], "the argument 'more' is one too many"),
        (["MODEL", "-o", "OUT", "--dynamic", "x=3"], "ARGUMENT:AXIS=NAME"),
        (["MODEL", "-o", "OUT", "--name", "a b"], "the name 'a b' is not accepted"),
        (["lost.py", "-o", "OUT"], "loading lost.py: no such file"),
        (["lost.py:net", "-o", "OUT"], "loading lost.py: no such file"),
        (["lost.pt2", "-o", "OUT"], "loading lost.pt2: no such file"),
        (["lost.pt", "-o", "OUT"], "loading lost.pt: no such file"),
        (["lost.py", "-o", "OUT", "--name", "a b"], "the name 'a b' is not accepted"),
        (["lost.py", "-o", "OUT", "--version", "one"], "the version 'one' is not accepted"),
        (["MODEL"], "the following arguments are required: -o/--out"),
        (["inspect", "nowhere.whl"], "there is no such file"),
        (["verify", "x.whl", "--device", "tpu"], "found 'tpu', accepted are a GPU's number"),
        (["tune.txt", "-o", "OUT"], "tune.txt: not understood"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_code_2(
    words: list[str],
    complaint: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {"MODEL": str(folder / "half_model.py"), "OUT": str(tmp_path / "out")}
    paths = [names.get(word, word).replace("MODEL/", f"{names['MODEL']}/") for word in words]
    code, error = failed(capsys, *paths)
    message = [line for line in error.splitlines() if line.startswith("aotpack ")]
    assert code == 2 and len(message) == 1 and complaint in message[0]
    assert not list(tmp_path.rglob("*.whl"))


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("y:0=n", "--dynamic y:0=n: dynamic shapes name the argument 'y', which forward is not"),
        ("x:5=n[2:8]", "--dynamic x:5=n[2:8]: dynamic shapes for x: it has no axis 5, but rank"),
        ("x:0=n[9:12]", "x is n in [9, 12], but the example input has 4; give an example inside"),
    ],
)
def test_dimensions_that_the_model_lacks_are_a_wrong_command_line(
    spec: str, complaint: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(folder / "half_model.py"), "-o", str(tmp_path / "out"), "--dynamic", spec]
    code, error = failed(capsys, *words)
    assert code == 2 and complaint in error


def test_dimensions_that_a_model_file_gives_wrongly_are_no_wrong_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.py").write_text(LINE.replace("{0: torch", "{7: torch"))
    words = [str(tmp_path / "m.py"), "-o", str(tmp_path / "out"), "--dynamic", "input:0=n"]
    code, error = failed(capsys, *words)
    assert code == 1 and "it has no axis 7" in error


def test_no_command_at_all_prints_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "aotpack MODEL -o DIR" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert main(["--help"]) == 0


def test_help_on_inspect_tells_what_its_columns_mean(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["inspect", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert '"moved" is the bytes' in told and '"us" an estimate of the microseconds' in told


def test_a_model_that_fails_is_one_message_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.py").write_text("raise ValueError('no weights here')\n")
    code, error = failed(capsys, str(tmp_path / "bad.py"), "-o", str(tmp_path / "out"))
    assert code == 1 and "no weights here" in error and "Traceback" not in error


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_model_is_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.py").write_text(MODEL.replace("return ", "return x.wrong + "))
    for place, message in (("dist", "wrong"), ("/proc/dist", "writing into /proc/dist failed")):
        code, error = failed(capsys, str(tmp_path / "wrong.py"), "-o", str(tmp_path / place))
        assert code == 1 and message in error
        assert ("check the folder and build again" in error) is (place == "/proc/dist")


@pytest.mark.parametrize(("word", "near"), [("biuld", "build"), ("verfy", "verify")])
def test_a_misspelt_verb_is_answered_with_the_nearest(
    folder: Path, capsys: pytest.CaptureFixture[str], word: str, near: str
) -> None:
    code, error = failed(capsys, word, str(folder / "half_model.py"), "-o", "dist")
    assert code == 2 and f"did you mean {near!r}?" in error and error.count("\n") == 1


@pytest.mark.parametrize("more", [(), ("-o", "dist")])
def test_a_model_file_without_its_ending_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").touch()
    code, error = failed(capsys, "good", *more)
    assert code == 2 and "did you mean 'good.py'?" in error
    assert "did you mean" not in failed(capsys, "other", *more)[1]


def test_a_traceback_is_printed_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.py").write_text("raise ValueError('no weights here')\n")
    words = [str(tmp_path / "bad.py"), "-o", str(tmp_path / "out"), "--traceback"]
    code, error = failed(capsys, *words)
    message = error.splitlines()[-2]
    assert code == 1 and "Traceback" in error and "ValueError: no weights here" in error
    assert message.startswith("aotpack build: loading ")


def test_what_is_no_error_of_ours_is_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: tmp_path.read_text())
    code, error = failed(capsys, "doctor")
    assert code == 1 and f"{tmp_path}: Is a directory" in error and error.count("\n") == 1
    monkeypatch.setattr(doctor, "version", lambda name: (tmp_path / "\x1b[2J").read_text())
    code, error = failed(capsys, "doctor")
    assert code == 1 and rf"{tmp_path}/\x1b[2J: No such file" in error
    monkeypatch.setattr(doctor, "version", lambda name: len(3))
    code, error = failed(capsys, "doctor")
    assert code == 1 and "internal error: TypeError: object of type 'int' has no len()" in error
    assert "test_cli.py:" in error and "--traceback" in error


def test_quiet_verbose_and_json_say_less_and_more(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(folder / "half_model.py"), "-o", str(tmp_path), "--target", "sm_90"]
    (tmp_path / "half.py").write_text("")
    capsys.readouterr()
    assert main([*words, "--quiet"]) == 0
    told = capsys.readouterr()
    wheel = tmp_path / "half-0.1.0-py3-none-any.whl"
    assert told.out == f"{wheel}\n" and told.err == ""
    assert main([*words, "--verbose"]) == 0
    told = capsys.readouterr()
    assert re.search(r"^ +[0-9.]+ s +1 runs  03_\d\d_fuse$", told.err, re.MULTILINE)
    assert main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["wheel"]["path"] == str(wheel)
    assert facts["wheel"]["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert facts["targets"] == ["sm_90"] and facts["kernels"] == 1
    told = json.loads(Path(facts["provenance"]).read_bytes())
    assert told["subject"] == [{"name": wheel.name, "digest": {"sha256": facts["wheel"]["sha256"]}}]
    definition = told["predicate"]["buildDefinition"]
    digest = hashlib.sha256((folder / "half_model.py").read_bytes()).hexdigest()
    assert definition["resolvedDependencies"][0] == {
        "name": "half_model.py",
        "digest": {"sha256": digest},
    }
    assert definition["externalParameters"]["options"]["fallback"] == "error"
    assert str(tmp_path) not in Path(facts["provenance"]).read_text()
    code, error = failed(capsys, *words, "--quiet", "--verbose")
    assert code == 2 and "not allowed with" in error


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_what_a_model_prints_is_no_part_of_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (tmp_path / "said.py").write_text(
        "import torch\nprint('loaded')\nmodel, example_inputs = torch.nn.ReLU(), (torch.ones(3),)\n"
    )
    assert main([str(tmp_path / "said.py"), "-o", str(tmp_path), "--target", "cpu", option]) == 0
    told = capsys.readouterr()
    wheel = json.loads(told.out)["wheel"]["path"] if option == "--json" else told.out.rstrip("\n")
    assert Path(wheel).is_file() and "loaded" in told.err


@pytest.mark.parametrize(
    ("option", "found"),
    [
        (["--dtype", "foo"], "'foo'"),
        (["--golden", "lots"], "lots"),
        (["--nope"], "no option --nope"),
    ],
)
def test_a_wrong_option_is_json_too(
    option: list[str], found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["model.py", "-o", str(tmp_path / "out"), *option]
    for more in (["--json"], []):
        with pytest.raises(SystemExit, match="2"):
            main([*words, *more])
        told = capsys.readouterr()
        assert found in told.err
        if more:
            error = json.loads(told.out)["error"]
            assert error["class"] == "UsageError" and found in error["message"]
        else:
            assert told.out == ""


def test_an_error_is_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text("raise ValueError('no weights here')\n")
    assert main([str(tmp_path / "bad.py"), "-o", str(tmp_path / "out"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["error"]["class"] == "TraceError" and "no weights" in told["error"]["message"]


def test_a_shell_completes_verbs_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    bash = f"{script}\ntype -t _shtab_aotpack\necho ${{_shtab_aotpack_build_option_strings[@]}}"
    done = subprocess.run(["bash", "-c", bash], capture_output=True, text=True, check=True)
    kind, options = done.stdout.splitlines()
    assert kind == "function" and "--deterministic" in options.split()
    code, error = failed(capsys, "completion", "fish")
    assert code == 2 and "accepted are bash, zsh, tcsh" in error


def test_help_and_usage_errors_do_not_import_torch() -> None:
    program = (
        "import sys\nfrom aotpack.cli import main\n"
        "main(['inspect', 'nowhere.whl'])\nmain(['show', 'nowhere.pt2'])\n"
        "sys.exit('torch' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert done.returncode == 0


@pytest.mark.usefixtures("heeds_interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_build_leaves_nothing(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    model = tmp_path / "slow.py"
    model.write_text(MODEL + "print('loaded', flush=True)\nimport time\ntime.sleep(60)\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", "aotpack", str(model), "-o", str(tmp_path / "out")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "loaded\n"
    time.sleep(0.1)
    process.send_signal(number)
    process.send_signal(number)  # the first is heeded, and the second disturbs nothing
    _, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted" in error and "Traceback" not in error
    assert not (tmp_path / "out").exists()


def test_a_reader_that_has_enough_gets_no_traceback(wheel: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-m", "aotpack", "inspect", str(wheel)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=environment, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
