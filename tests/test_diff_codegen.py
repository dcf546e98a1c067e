"""Generated code is compared by ``tools/diff_codegen.py``: what may differ unseen, and what not."""

from pathlib import Path

import pytest

from tools.codegen_corpus import write_shown
from tools.diff_codegen import differences, main, normal, pairs

OLD = """\
# ==== kernel add_0123abcd
import triton


@triton.jit
def add_0123abcd(x_ptr, rows):
    # model.py:3: x + 1
    room = open_room()  # of this program
    wait(room, 0)

#pragma omp simd
// ==== kernel mul_4567cdef
Launch("add_0123abcd"), Launch("mul_4567cdef")
"""
NEW = """\
import triton


# template: device.py.jinja
@triton.jit
def add_89abcdef(x_ptr, rows):
    mailbox = open_mailbox()
    wait(mailbox, 0)

#pragma omp simd
Launch("add_89abcdef"), Launch("mul_00000000")
"""
RENAMED = {"room": "mailbox", "open_room": "open_mailbox"}


def changed(new: str, renamed: dict[str, str] = RENAMED) -> list[str]:
    """The lines that are said to differ from OLD."""
    found = differences({"m": normal(OLD, renamed)}, {"m": normal(new)})
    return [line for line in found if line[0] in "+-" and line[:3] not in ("+++", "---")]


def test_headers_and_given_names_may_differ() -> None:
    assert changed(NEW) == []


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("wait(mailbox, 0)", "wait(mailbox, 1)"),
        ("wait(mailbox, 0)", "hold(mailbox, 0)"),
        ("    wait(mailbox, 0)\n", ""),
        ('Launch("add_89abcdef")', 'Launch("mul_00000000")'),
        ("def add_89abcdef", "def sum_89abcdef"),
        ("#pragma omp simd\n", ""),
        ("import triton\n\n", "import triton\n"),
        ("rows", "lines"),
    ],
)
def test_nothing_else_may(text: str, other: str) -> None:
    assert text in NEW
    assert changed(NEW.replace(text, other)) != []


def test_a_name_in_a_longer_one_is_another() -> None:
    assert changed(NEW, {"room": "mailbox"}) == [
        "-    mailbox = open_room()\n",
        "+    mailbox = open_mailbox()\n",
    ]


def test_an_underscore_joins_a_name_to_longer_ones() -> None:
    old, renamed = "sum_completed_0a1b2c3d()\n", {"_completed_": "_with_last_block_"}
    assert normal(old, renamed) == "sum_with_last_block_#0()\n"
    assert normal("completed_sum()\n", {"_completed_": "_x_"}) == "completed_sum()\n"


def test_a_model_of_one_side_is_not_compared() -> None:
    assert list(differences({"m": "x\n"}, {"m": "x\n", "n": "y\n"})) == []
    assert list(differences({"m": "x\n"}, {"m": "y\n"}))[2:] == ["@@ -1 +1 @@\n", "-x\n", "+y\n"]


def test_pairs_come_from_options_and_files(tmp_path: Path) -> None:
    file = tmp_path / "renamed.txt"
    file.write_text("side = room=stage = mailbox\n\nlater=next_row\n")
    assert pairs(["tell=publish", str(file)]) == {
        "tell": "publish",
        "side = room": "stage = mailbox",
        "later": "next_row",
    }


@pytest.mark.parametrize("word", ["tell", "=publish", "tell=", "tell = publish"])
def test_what_is_no_pair_is_refused(word: str) -> None:
    with pytest.raises(SystemExit, match="is no OLD=NEW"):
        pairs([word])


MODEL = """\
import torch

model = torch.nn.GELU()
example_inputs = (torch.zeros(4, 8),)
"""


def sides(tmp_path: Path, *models: tuple[str, str, str]) -> list[str]:
    """The folders of both sides: what each shows for (side, name, text of a model)."""
    folders = [tmp_path / side for side in ("old", "new")]
    for folder in folders:
        folder.mkdir()
    for side, name, text in models:
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        write_shown(tmp_path / side, name, str(file))
    return list(map(str, folders))


def test_equal_models_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = sides(tmp_path, ("old", "a", MODEL), ("new", "a", MODEL), ("new", "b", MODEL))
    assert main([*given, "--ignore-names"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "only one side has b\n1 models compared, 0 refusals\n"


def test_models_that_both_sides_refuse_are_not_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = MODEL.replace("torch.zeros(4, 8)", "")
    models = [
        (side, name, text)
        for side in ("old", "new")
        for name, text in (("good", MODEL), ("bad", refused))
    ]
    assert main([*sides(tmp_path, *models), "--ignore-names"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "old refuses bad: " in err and "new refuses bad: " in err
    assert err.endswith("1 models compared, 2 refusals\n")


def test_a_model_that_one_side_refuses_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = sides(tmp_path, ("old", "a", MODEL), ("new", "a", "model = 1\n"))
    assert main(given) == 1
    assert "new refuses a: " in capsys.readouterr().err
