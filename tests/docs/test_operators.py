"""docs/operators.md says where each operator is lowered."""

from pathlib import Path

from aotpack.lower import LOWERINGS
from tools.operators import ROOT, text


def test_the_page_is_what_the_tool_writes() -> None:
    shown = (ROOT / "docs" / "operators.md").read_text()
    assert shown == text(LOWERINGS), "run python tools/operators.py"


def test_names_that_are_computed_are_found() -> None:
    rows = text(LOWERINGS).splitlines()
    assert "| `aten.var` | `lower/reductions/variance_norms.py` |" in rows
    assert "| `aten.topk` | `lower/reductions/sort.py` |" in rows


def test_an_operator_more_makes_the_page_stale() -> None:
    def lower_new() -> None:
        raise AssertionError

    more = text({**LOWERINGS, "ns.new.default": lower_new})
    assert more != text(LOWERINGS) and "`ns.new`" in more


def test_every_module_is_there() -> None:
    paths = {cell for line in text(LOWERINGS).splitlines()[12:] for cell in line.split("`")[3::2]}
    assert paths and all(Path(ROOT, "aotpack", path).is_file() for path in paths)
