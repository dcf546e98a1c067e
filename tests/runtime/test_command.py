import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aotpack.runtime import command
from aotpack.runtime.command import device_of, import_first, main
from aotpack.runtime.errors import AotpackError
from aotpack.runtime.manifest import SCHEMA
from aotpack.runtime.selftest import verify

from .fake_device import FakeDevice
from .packages import rewrite


def test_info(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(str(package / "__main__.py"), ["info"]) == 0
    text = capsys.readouterr().out
    assert "demo(x: float32[b, s]" in text and "targets   fake" in text
    assert "weights   1 tensor of 4 bytes (embed)" in text
    assert main(str(package / "__main__.py"), ["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == SCHEMA


def test_text_of_the_manifest_does_not_rule_the_terminal(
    package: Path, device: FakeDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((package / "manifest.json").read_bytes())
    manifest["golden"] |= {"note": "\x1b[31m\x9b \u202e\ntargets x", "eager_errors": []}
    rewrite(package, manifest)
    assert main(str(package / "__main__.py"), ["info"]) == 0
    shown = r"\x1b[31m\x9b \u202e\ntargets x"
    assert f"golden    {shown}" in capsys.readouterr().out.splitlines()
    assert f"no golden data: {shown}\n" in str(verify(package, device))


def test_a_damaged_package_is_one_line(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "manifest.json").unlink()
    assert main(str(package / "__main__.py"), ["info"]) == 1
    assert capsys.readouterr().err.startswith("error: loading a package: ")


@pytest.mark.parametrize(("seconds", "calls"), [(0, 5), (60, 100)])
def test_bench_ends_when_the_time_is_over(
    package: Path,
    device: FakeDevice,
    seconds: int,
    calls: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "_SECONDS", seconds)
    assert command.bench(package, device, None, None) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"timing up to 100 calls in {seconds} s on ")
    assert second.endswith(f"(of {calls} calls)")


def test_usage(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(str(package / "__main__.py"), ["dance"])
    told = capsys.readouterr().err
    assert stop.value.code == 2 and "invalid choice: 'dance'; choose from info, verify" in told
    assert "did you mean" not in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["vrify"], "invalid choice: 'vrify'; .*; did you mean 'verify'"),
        (["verify", "--weigths=x"], "unrecognized arguments: --weigths=x; .* '--weights'"),
        (["info", "--jsno"], "unrecognized arguments: --jsno; did you mean '--json'"),
        (["verify", "--weights", "gone"], "--weights: gone: no such file; a safetensors file is"),
        (["bench", "--weights", "."], "--weights: .: it is a folder; a safetensors file is"),
    ],
)
def test_near_words_and_files_that_are_not_there_are_told(
    package: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(str(package / "__main__.py"), words)
    assert stop.value.code == 2 and re.search(told, capsys.readouterr().err)


def test_a_device_that_there_is_not_is_a_wrong_command_line(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["verify", "--device", "gpu"], ["bench", "--device", "-1"]):
        assert main(str(package / "__main__.py"), words) == 2
        assert "accepted: a GPU's number" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["info", "--js"], ["verify", "--dev", "cpu"]])
def test_abbreviated_options_are_refused(
    package: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(str(package / "__main__.py"), words)
    assert stop.value.code == 2 and "unrecognized arguments: --" in capsys.readouterr().err


@pytest.mark.parametrize(("reads", "code"), [(True, 0), (False, 141)])
def test_a_reader_that_goes_away_ends_the_command_quietly(
    package: Path, reads: bool, code: int
) -> None:
    program = (
        "import sys\nfrom aotpack.runtime.command import main\n"
        "sys.stdin.readline()\nsys.exit(main(sys.argv[1], ['info', '--json']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(package / "__main__.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    if not reads:
        process.stdout.close()
    process.stdin.write("\n")
    process.stdin.close()
    if reads:
        assert json.loads(process.stdout.read())["schema"] == SCHEMA
    assert process.stderr.read() == "" and process.wait(20) == code


COMMAND = ("verify", "--device", "cpu", "--import", "operators")
SHADOWS = ("mmap", "pathlib", "json", "ctypes", "hashlib", "argparse", "numpy", "typing", "csv")


@pytest.mark.parametrize("flags", [[], ["-P"]])
def test_files_of_the_current_folder_are_no_modules_of_python(
    package: Path, tmp_path: Path, flags: list[str]
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(f"raise SystemExit('{name} of the current folder ran')")
    (folder / "operators.py").write_text("print('imported')")
    done = subprocess.run(
        [
            sys.executable,
            *flags,
            "-m",
            "demo",
            "verify",
            "--device",
            "cpu",
            "--import",
            "operators",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "imported\n" and "has binaries for fake" in done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raises", "--import 'raises': ValueError: not here; the full name"),
        ("exits", "--import 'exits': SystemExit: 3; "),
        (
            "unreadable",
            "--import 'unreadable': SyntaxError: invalid syntax (unreadable.py",
        ),
        ("", "--import '': ValueError: Empty module name; "),
        (".near", "--import '.near': TypeError: "),
        ("nowhere", "--import 'nowhere': No module named 'nowhere'; "),
    ],
)
def test_modules_that_cannot_be_imported_are_errors_in_words(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raises.py").write_text("raise ValueError('not here')")
    (tmp_path / "exits.py").write_text("raise SystemExit(3)")
    (tmp_path / "unreadable.py").write_text("def")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(AotpackError, match=re.escape(words)):
        import_first([name])


@pytest.mark.parametrize(
    ("text", "device"),
    [("cuda", 0), ("cuda:1", 1), ("2", 2), ("cpu", "cpu"), (None, None), ("cuda:x", "cuda:x")],
)
def test_a_device_has_the_names_that_load_takes(text: str | None, device: int | str | None) -> None:
    assert device_of(text) == device
