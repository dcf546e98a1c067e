"""The facts of a package as one HTML page, with the sources of its kernels; all text is escaped."""

from dataclasses import dataclass

from aotpack.render.environment import render_page


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table; numbers stand to the right."""

    text: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A source text and its name."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the page shows; ``facts`` are names and values."""

    title: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    listings: tuple[Listing, ...]


def render_report(report: Report) -> str:
    """The page; the same report gives the same text."""
    return render_page("report.html.jinja", report)
