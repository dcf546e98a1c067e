"""Draw docs/benchmarks.svg: the speed of whole models relative to the best mode of torch.

    python tools/plot_benchmarks.py

Reads ``docs/measurements/h200_models.csv``. Lines of a measurement that begin with "#"
are its header. Bars left of the line at 1.0 are models that torch runs faster.
"""

import csv
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
MEASUREMENT = ROOT / "docs" / "measurements" / "h200_models.csv"
PLOT = ROOT / "docs" / "benchmarks.svg"
OURS = "aotpack"
GRAPHS = "reduce-overhead"
PEERS = ("eager", "torch.compile", GRAPHS)
LEFT, WIDTH, STEP, TOP = 270, 420, 24, 44
MOST = 3.0  # the right end of the axis
FAST, SLOW = "#2a6f97", "#c1666b"

Times = dict[str, dict[str, float]]


def read_times(text: str, unit: str) -> Times:
    """Variant -> value of each case that was measured in ``unit``."""
    found: Times = {}
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for row in csv.DictReader(lines):
        if row["unit"] == unit and row["value"]:
            found.setdefault(row["case"], {})[row["variant"]] = float(row["value"])
    return found


def speedups(times: Times) -> list[tuple[str, float]]:
    """(case, best peer's time / ours), the largest first; cases without ``GRAPHS`` are left out."""
    whole = {case: row for case, row in times.items() if {OURS, GRAPHS} <= row.keys()}
    peers = {case: [row[peer] for peer in PEERS if peer in row] for case, row in whole.items()}
    pairs = [(case, min(peers[case]) / row[OURS]) for case, row in whole.items()]
    return sorted(pairs, key=lambda pair: -pair[1])


def drawing(pairs: list[tuple[str, float]]) -> str:
    """The bars as SVG."""
    height = TOP + STEP * len(pairs) + 16
    one = LEFT + WIDTH / MOST
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 70}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="10" y="22" font-weight="bold">H200, bf16: times as fast as the best of eager, '
        "torch.compile, reduce-overhead</text>",
        *(line for place, pair in enumerate(pairs) for line in _bar(place, *pair)),
        f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{TOP - 8}" y2="{height - 10}" stroke="black"/>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _bar(place: int, case: str, speedup: float) -> Iterable[str]:
    top = TOP + STEP * place
    end = min(speedup, MOST) * WIDTH / MOST
    color = FAST if speedup >= 1 else SLOW
    yield f'<text x="{LEFT - 8}" y="{top + 14}" text-anchor="end">{escape(case)}</text>'
    yield f'<rect x="{LEFT}" y="{top}" width="{end:.1f}" height="18" fill="{color}"/>'
    yield f'<text x="{LEFT + end + 6:.1f}" y="{top + 14}">{speedup:.2f}</text>'


def main() -> None:
    PLOT.write_text(drawing(speedups(read_times(MEASUREMENT.read_text(), "ms"))))
    print(f"wrote {PLOT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
