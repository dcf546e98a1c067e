"""A package's facts as rows, and rows as plain text or as one HTML file."""

import html
import zipfile
from collections.abc import Mapping, Sequence

from aotpack.runtime.manifest import Manifest

Rows = Sequence[tuple[str, ...]]

_STYLE = (
    "body{font:14px/1.5 sans-serif;margin:2em auto;max-width:75em;padding:0 1em}"
    "table{border-collapse:collapse}"
    "td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ccc}"
    "td.number{text-align:right;font-variant-numeric:tabular-nums}"
    "pre{background:#f4f4f4;padding:1em;overflow:auto}"
)


def summary_rows(manifest: Manifest, archive: zipfile.ZipFile) -> Rows:
    """What the package is: one (name, value) for each fact."""
    signature = manifest.signature
    compilers = ", ".join(
        f"{name} {version}" for name, version in sorted(manifest.compilers.items())
    )
    return [
        ("package", f"{signature.name} {signature.version}"),
        ("built by", ", ".join(filter(None, (f"aotpack {manifest.aotpack}", compilers)))),
        ("targets", ", ".join(manifest.targets)),
        *(("size", str(size)) for size in signature.sizes),
        *(("input", str(tensor)) for tensor in signature.inputs),
        *(("output", str(tensor)) for tensor in signature.outputs),
        ("weights", f"{len(manifest.weights)} tensors, {manifest.weights_mode}"),
        ("memory", f"{manifest.peak_bytes:,} bytes for intermediates at the largest sizes"),
        ("wheel", f"{sum(info.file_size for info in archive.infolist()):,} bytes unpacked"),
    ]


def kernel_rows(manifest: Manifest) -> Rows:
    """Every binary: a header, then a row each, sorted by target and kernel."""
    header = ("target", "kernel", "registers", "spills", "shared", "warps", "bytes")
    rows = [
        (target, name, *map(str, (b.registers, b.spills, b.shared, b.num_warps, b.bytes)))
        for name, kernel in manifest.kernels.items()
        for target, b in kernel.binaries.items()
    ]
    return [header, *sorted(rows)]


def table(rows: Rows) -> str:
    """Aligned columns; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if cell.isdecimal() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def html_report(manifest: Manifest, archive: zipfile.ZipFile, sources: Mapping[str, str]) -> str:
    """The facts, the kernels and their sources as one file without outside parts."""
    title = html.escape(f"{manifest.signature.name} {manifest.signature.version}")
    texts = "".join(
        f"<details><summary>{html.escape(name)}</summary><pre>{html.escape(text)}</pre></details>"
        for name, text in sorted(sources.items())
    )
    facts = "".join(map(_html_row, summary_rows(manifest, archive)))
    header, *kernels = kernel_rows(manifest)
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style><h1>{title}</h1><table>{facts}</table><h2>Kernels</h2>"
        f"<table><tr>{heads}</tr>{''.join(map(_html_row, kernels))}</table>"
        f"<h2>Sources</h2>{texts}</html>\n"
    )


def _html_row(row: Sequence[str]) -> str:
    cells = (
        f'<td class="number">{cell}</td>' if cell.isdecimal() else f"<td>{html.escape(cell)}</td>"
        for cell in row
    )
    return f"<tr>{''.join(cells)}</tr>"
