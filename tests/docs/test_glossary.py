"""Former names do not come back: neither as identifiers nor as paths of modules.

A pattern finds the name where it is an identifier or a module, not where it is an English word.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEARCHED = ("aotpack", "tools", "tests", "templates", "docs", "examples", "README.md")
GLOSSARY = "docs/glossary.md"
HEADING = "## Former names"
GENERATED = ("docs/capabilities.md", "docs/op_coverage.md")  # the sources of these are searched
HOLDERS = (Path(__file__).relative_to(ROOT).as_posix(), *GENERATED)


def module(folders: str, *names: str) -> str:
    """A pattern for modules in folders, as paths, dotted names and imports."""
    either = "|".join(names)
    path = rf"\b(?:{folders})[./](?:\w+[./])*(?:{either})\b"
    return rf"{path}|\bfrom [\w.]*\b(?:{folders})\b[\w.]* import (?:{either})\b"


def word(*names: str) -> str:
    """A pattern for identifiers that are no English words."""
    return rf"\b(?:{'|'.join(names)})\b"


def field(*names: str) -> str:
    """A pattern for fields and keywords that are English words elsewhere."""
    either = "|".join(names)
    given = rf"\b(?:{either})(?:=\w|: (?:bool|int|str|tuple|dict|list)\b)"
    return rf"\w\.(?:{either})\b(?=[^\w.]|$)|{given}"


FORMER = {
    "Workshop": word("Workshop", r"(?:loop|host|tile)?_?workshop"),
    "TileShop": word("TileShop"),
    "shop": word("shop"),
    "promises": word("promised_sizes", "promises_of") + "|" + module("schedule|tiles", "promises"),
    "with_promises": word("with_promises"),
    "PlaneTile": word("PlaneTile"),
    "plane_tile": word("plane_tile") + r"|\bas plane\b|" + module("schedule|tiles", "plane"),
    "held_rows": r"held_rows",
    "rows_to_hold": word("rows_to_hold", "_is_quicker_held"),
    "IN_TURN": word("IN_TURN", "check_rows_in_turn") + "|" + module("schedule|tiles", "in_turn"),
    "tile_in_turn": word("tile_in_turn"),
    "in_turn": word("in_turn"),
    "Desk": word("Desk", "desk"),
    "desks": word("desks"),
    "Room": word("Room") + "|" + module("ir|kernels|runtime|memory", "rooms"),
    "room_of": word("room_of", "room_bytes"),
    "room": r"^\s*rooms?(?:: [^=]+)? = |\bfor rooms? in\b|[(,] ?rooms?: ",
    "chain": r"^\s*chains?(?:: [^=]+)? = |\bfor chains? in\b|[(,] ?chains?: ",
    "chain_of": word("chain_of", "places_in_chain", "CHAIN_[A-Z]+", "MOST_CHAINS", "check_chains"),
    "chained_scan": word("chained_scan", "end_chain") + "|" + module("render|triton", "chains"),
    "share_of": word("share_of", "check_shared_rows") + "|" + module("render|triton", "sharing"),
    "RowShare": word("RowShare") + r"|\b(?:builder|walk|self)\.share\b",
    "rows_to_share": word("rows_to_share") + "|" + module("schedule|memory", "share"),
    "completes": field("completes") + "|" + word("check_completing"),
    "_completed": r"_completed\b",
    "completed_launch": word("completed_launch") + "|" + module("render", "completed"),
    "combo": word("combo"),
    "small_together": word("small_together", "combined_launch", "CombinedContext"),
    "kernel_combined": word("kernel_combined") + "|" + module("render", "combined"),
    "joins": field("joins") + r"|\bas join\b",
    "Joined": word("Joined") + r"|\w\.joined\b|\bclass ConcatBuffer\(nn\.Module",
    "write_parts_in_place": word("write_parts_in_place", "_write_joined"),
    "copy_bases": word("copy_bases") + "|" + module("schedule|program", "bases"),
    "agree_on_rounding": word("agree_on_rounding") + "|" + module("schedule|fusion", "agree"),
    "groups_without_common_reads": word("groups_without_common_reads"),
    "open_apart": word("open_apart") + "|" + module("render|emit", "apart"),
    "anchor": r"\.anchor\b|\bdef anchor\b",
    "Between": r"\bclass Between\b|\bBetween\(|: Between\b",
    "Judge": word("Judge"),
    "OwnSchedule": word("OwnSchedule", "_own_schedules") + r"|\b(?:scheduled|product)\.own\b",
    "alone": r"\balone=(?:True|False)\b|\bbuffer\.alone\b",
    "Apart": r"\bApart\((?!nn\.Module|\))",
    "ir.nodes": r"\bir[./]nodes\b|\bfrom aotpack\.ir import nodes\b",
    "bags": module("lower|indexing", "bags"),
    "phases": module("lower|linalg", "phases"),
    "spread": module("lower|reductions", "spread"),
    "c_few": word("c_few") + r"|\brender[./]c_\w+",
    "c_sides": word("c_sides"),
    "choose_sides": word("choose_sides"),
    "scope.held": r"\bscope\.held\b|\bring\.held\b|\bHeld\b(?=[(\]:])",
    "take_halves_apart": word("take_halves_apart", "stages_with_halves_apart"),
    "few_source": word("few_source", "FewContext", "kernel_few"),
}
VARIABLES = ("room", "chain")  # words of tests and of models too, so the package alone is searched


def listed(text: str) -> set[str]:
    """The former names in the table of the glossary."""
    rows = text.partition(HEADING)[2].splitlines()
    firsts = [row.split("|")[1] for row in rows if row.startswith("| `")]
    return {name for first in firsts for name in re.findall(r"`([^`]+)`", first)}


def leftovers(path: str, text: str) -> list[str]:
    """Former names in a file and in its own path, each with its line."""
    whole = f"{path}\n{text}"
    return [
        f"{path}:{number}: {name}"
        for name, pattern in FORMER.items()
        if path.startswith("aotpack/") or name not in VARIABLES
        if re.search(pattern, whole, re.MULTILINE)  # lines are gone through where there is one
        for number, line in enumerate(whole.splitlines())
        if re.search(pattern, line)
    ]


def searched_files() -> list[str]:
    """The texts of the project, but those that hold the list."""
    paths = [path for name in SEARCHED for path in ((ROOT / name), *(ROOT / name).rglob("*"))]
    texts = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return [name for path in texts if (name := path.relative_to(ROOT).as_posix()) not in HOLDERS]


def test_no_former_name_is_left() -> None:
    found = []
    for name in searched_files():
        text = (ROOT / name).read_text()
        found += leftovers(name, text.partition(HEADING)[0] if name == GLOSSARY else text)
    assert found == []


def test_the_glossary_lists_what_is_looked_for() -> None:
    assert listed((ROOT / GLOSSARY).read_text()) == set(FORMER)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("class Workshop:", "Workshop"),
        ("def loop(shop: KernelBuilder) -> None:", "shop"),
        ("from aotpack.schedule.plane import lines", "plane_tile"),
        ("from aotpack.schedule import promises", "promises"),
        ("replace(kernel, joins=True)", "joins"),
        ("return kernel.completes", "completes"),
        ("replace(buffer, alone=True)", "alone"),
        ("first = kernel.anchor", "anchor"),
        ("`aotpack/ir/nodes.py` has the grammar", "ir.nodes"),
        ("from aotpack.lower.linalg import phases", "phases"),
        ("see lower/indexing/bags.py", "bags"),
        ("templates/kernel_combined.py.jinja", "kernel_combined"),
        ("aotpack/render/c_loops.py", "c_few"),
        ("in_turn=walk.in_turn,", "in_turn"),
        ("length = self.share.length(extent)", "RowShare"),
        ("text = self.scope.held[read]", "scope.held"),
        ("    in_turn: bool = False", "in_turn"),
        ("first.name + '_completed'", "_completed"),
        ("from aotpack.render.c.contexts import FewContext", "few_source"),
        ("templates/kernel_few.c.jinja", "few_source"),
        ("from aotpack.schedule.tiles import tile_2d as plane", "plane_tile"),
        ("from aotpack.schedule.fusion import concat_in_place as join", "joins"),
        ("def test_held_rows_on_a_gpu() -> None:", "held_rows"),
        ("class ConcatBuffer(nn.Module):", "Joined"),
    ],
)
def test_a_former_name_is_found(line: str, name: str) -> None:
    assert leftovers("tools/x.py", line) == [f"tools/x.py:1: {name}"]


@pytest.mark.parametrize(
    "line",
    [
        "an operation joins its producer's kernel, which completes the row",
        "two planes of a 3-d tensor; bags of one size; phases of the stride",
        "what several kernels share, taken in turn, has room for one more and stands alone",
        "--alone leaves torch.compile out; bench(name, alone=given.alone)",
        "`base` buffers and their bases = (); spread(stride, dims)",
    ],
)
def test_an_english_sentence_is_not_found(line: str) -> None:
    assert leftovers("docs/x.md", line) == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("    chains: list[Int] = []", "chain"),
        ("def f(room: int) -> None:", "room"),
        ("rooms = [b.shape for b in kernel.exchange]", "room"),
    ],
)
def test_a_former_variable_is_found_in_the_package(line: str, name: str) -> None:
    assert leftovers("aotpack/x.py", line) == [f"aotpack/x.py:1: {name}"]
    assert leftovers("tests/x.py", line) == []


def test_a_file_with_a_former_name_is_found() -> None:
    assert leftovers("tests/e2e/test_held_rows.py", "") == [
        "tests/e2e/test_held_rows.py:0: held_rows"
    ]
