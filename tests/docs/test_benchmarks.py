"""docs/benchmarks.md shows what docs/measurements holds; a measurement says how it was made."""

import csv
import re
from pathlib import Path

import pytest

from tools.plot_benchmarks import MEASUREMENT, PLOT, drawing, read_times, speedups

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
MEASUREMENTS = sorted((ROOT / "docs" / "measurements").glob("*.csv"))
HEADER = ("title", "date", "machine", "versions", "command")
COLUMNS = ["case", "variant", "value", "high", "unit", "note"]
MODES = ("aotpack", "eager", "torch.compile", "reduce-overhead", "max-autotune")


def format_faults(text: str) -> list[str]:
    """What a measurement lacks or misstates."""
    header = [line for line in text.splitlines() if line.startswith("# ")]
    keys = {line[2:].partition(":")[0] for line in header}
    faults = [f"no {key}" for key in HEADER if key not in keys]
    table = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    if next(table, []) != COLUMNS:
        faults.append("other columns")
    for number, row in enumerate(table, 1):
        figures = [figure for figure in row[2:4] if figure]
        if len(row) != len(COLUMNS) or not (figures or row[-1]):
            faults.append(f"row {number} says nothing")
        elif any(not re.fullmatch(r"-?\d+(\.\d+)?", figure) for figure in figures):
            faults.append(f"row {number} has no number")
    return faults


def shown_models(text: str) -> dict[str, list[str]]:
    """Case and device -> the cells of the table of models."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head = next(number for number, row in enumerate(rows) if row[0] == "model")
    models = [row for row in rows[head + 1 :] if len(row) == len(rows[head])]
    return {f"{row[0]} on {row[1]}": row[2:8] for row in models}


def wrong_cells(cells: list[str], measured: dict[str, float]) -> list[str]:
    """Cells that are not what was measured; the last is the best peer's time over ours."""
    *times, ratio = cells
    shown = {mode: float(cell) for mode, cell in zip(MODES, times, strict=True) if cell}
    wrong = [mode for mode, value in shown.items() if measured[mode] != value]
    best = min(value for mode, value in shown.items() if mode != "aotpack")
    exact = best / shown["aotpack"]
    return wrong if abs(exact - float(ratio)) < 0.006 else [*wrong, "ratio"]


@pytest.mark.parametrize("path", MEASUREMENTS, ids=lambda path: path.stem)
def test_a_measurement_says_how_it_was_made(path: Path) -> None:
    assert format_faults(path.read_text()) == []
    assert f"measurements/{path.name}" in PAGE.read_text()


def test_a_bad_measurement_is_found() -> None:
    text = "# title: t\n# date: d\n# machine: m\n# command: c\ncase,variant,value,high,unit,note\n"
    assert format_faults(f"{text}a,b,fast,,us,\nc,d,,,us,\n") == [
        "no versions",
        "row 1 has no number",
        "row 2 says nothing",
    ]


def medians(path: Path) -> dict[str, dict[str, float]]:
    """The times of a measurement of models, without the fastest calls."""
    lines = [line for line in path.read_text().splitlines() if ",fastest" not in line]
    return read_times("\n".join(lines), "ms")


def test_the_table_of_models_is_what_was_measured() -> None:
    gpu, cpu = medians(MEASUREMENT), medians(MEASUREMENT.with_name("cpu_models.csv"))
    shown = shown_models(PAGE.read_text())
    assert len(shown) > 12
    for name, cells in shown.items():
        case, _, device = name.rpartition(" on ")
        assert wrong_cells(cells, (gpu if device == "H200" else cpu)[case]) == [], name


def test_a_wrong_cell_is_found() -> None:
    measured = {"aotpack": 1.0, "eager": 3.0, "torch.compile": 2.0}
    assert wrong_cells(["1.0", "3.0", "2.0", "", "", "2.00"], measured) == []
    assert wrong_cells(["1.0", "3.5", "2.0", "", "", "2.10"], measured) == ["eager", "ratio"]


def test_the_plot_is_drawn_from_the_measurement() -> None:
    text = MEASUREMENT.read_text()
    assert drawing(speedups(read_times(text, "ms"))) == PLOT.read_text(), (
        "run python tools/plot_benchmarks.py"
    )
    assert drawing(speedups(read_times(text.replace("0.331", "0.431"), "ms"))) != PLOT.read_text()


def test_the_best_peer_is_compared_with() -> None:
    times = {
        "fast": {"aotpack": 1.0, "eager": 9.0, "torch.compile": 4.0, "reduce-overhead": 2.0},
        "slow": {"aotpack": 2.0, "eager": 1.0, "torch.compile": 4.0, "reduce-overhead": 2.0},
        "not measured": {"aotpack": 2.0, "eager": 1.0},
    }
    assert speedups(times) == [("fast", 2.0), ("slow", 0.5)]
