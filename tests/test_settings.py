"""Options from pyproject.toml: those of the command line win, and unknown ones are refused."""

from pathlib import Path

import pytest

from aotpack.cli import main
from aotpack.commands.settings import with_settings
from aotpack.errors import UsageError

OWN = {"--target", "--out", "--strict", "--jobs", "--golden", "--quiet", "--verbose"}
EVERY = OWN | {"--why"}


def settings(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text)
    inner = folder / "inner"
    inner.mkdir()
    return inner


@pytest.mark.parametrize(
    ("text", "words", "read"),
    [
        ("target = 'cpu'", ["m.py"], ["--target=cpu", "m.py"]),
        ("target = ['sm_90', 'cpu']", [], ["--target=sm_90", "--target=cpu"]),
        ("target = 'cpu'", ["--target=sm_90"], ["--target=sm_90"]),
        ("out = 'dist'", ["-o", "here"], ["-o", "here"]),
        ("out = 'dist'", ["m.py", "-ohere"], ["m.py", "-ohere"]),
        ("quiet = true", ["--verbose"], ["--verbose"]),
        ("golden = 0.5", ["--", "m.py"], ["--golden=0.5", "--", "m.py"]),
        ("strict = true\njobs = 2", [], ["--strict", "--jobs=2"]),
        ("strict = false\nwhy = true", [], []),
        ("", ["m.py"], ["m.py"]),
    ],
)
def test_options_of_the_file_stand_behind_those_given(
    tmp_path: Path, text: str, words: list[str], read: list[str]
) -> None:
    start = settings(tmp_path, f"[tool.aotpack]\n{text}\n")
    assert with_settings(words, OWN, EVERY, start) == read


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[tool.aotpack]\ntarge = 'cpu'", "'targe' is no option of a build; did you mean '--targ"),
        ("[tool.aotpack]\njobs = 1979-05-27", "a text, a number, true, false or a list"),
        ("[tool.aotpack]\njobs = [true]", "a text, a number, true, false or a list"),
        ("[tool]\naotpack = 3", "tool.aotpack is no table"),
        ("[tool", "a file in TOML is accepted"),
    ],
)
def test_what_is_no_option_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    start = settings(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        with_settings([], OWN, EVERY, start)
    assert complaint in str(caught.value)


def test_a_project_without_the_table_changes_nothing(tmp_path: Path) -> None:
    start = settings(tmp_path, "[tool.other]\nx = 1\n")
    assert with_settings(["m.py"], OWN, EVERY, start) == ["m.py"]


def test_show_and_build_read_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\nmodel, example_inputs = torch.nn.ReLU(), (torch.ones(4),)\n"
    )
    (tmp_path / "pyproject.toml").write_text(
        "[tool.aotpack]\nout = 'made'\ntarget = 'cpu'\nstage = 'traced'\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["build", "m.py", "--jobs", "none"])
    assert "(pyproject.toml adds --out=made --target=cpu); see" in capsys.readouterr().err
    assert main(["show", "m.py"]) == 0
    assert capsys.readouterr().out.startswith("model m 0.1.0\n")
    assert main(["build", "m.py"]) == 0
    assert len(list((tmp_path / "made").glob("*.whl"))) == 1
