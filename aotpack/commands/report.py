"""A package's facts as rows, and rows as plain text or as one HTML file."""

import html
import zipfile
from collections.abc import Mapping, Sequence

from aotpack.devices import GPUS
from aotpack.runtime.manifest import Kernel, Manifest, Tensor
from aotpack.tune import estimate

Rows = Sequence[tuple[str, ...]]

_STYLE = (
    "body{font:14px/1.5 sans-serif;margin:2em auto;max-width:75em;padding:0 1em}"
    "table{border-collapse:collapse}"
    "td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ccc}"
    "td.number{text-align:right;font-variant-numeric:tabular-nums}"
    "pre{background:#f4f4f4;padding:1em;overflow:auto}"
)


def summary_rows(manifest: Manifest, archive: zipfile.ZipFile) -> Rows:
    """A (name, value) row for each fact of the package."""
    signature = manifest.signature
    compilers = ", ".join(
        f"{name} {version}" for name, version in sorted(manifest.compilers.items())
    )
    return [
        ("package", f"{signature.name} {signature.version}"),
        ("built by", ", ".join(filter(None, (f"aotpack {manifest.aotpack}", compilers)))),
        ("targets", ", ".join(manifest.targets)),
        *(("size", str(size)) for size in signature.sizes),
        *_tensors("input", signature.paths, signature.inputs),
        *_tensors("output", signature.labels, signature.outputs),
        *(("assertion", one.message) for one in signature.assertions),
        ("weights", f"{len(manifest.weights)} tensors, {manifest.weights_mode}"),
        ("memory", f"{manifest.peak_bytes:,} bytes for intermediates at the largest sizes"),
        ("golden", manifest.golden.note or "inputs and results"),
        *(("torch", f"runs {call.operator}: {call.reason}") for call in manifest.calls.values()),
        ("wheel", f"{sum(info.file_size for info in archive.infolist()):,} bytes unpacked"),
    ]


def _tensors(what: str, names: Sequence[str], tensors: Sequence[Tensor]) -> Rows:
    pairs = zip(names, tensors, strict=True)
    return [(what, f"{name}: {tensor.type_text()}") for name, tensor in pairs]


def kernel_rows(manifest: Manifest, sizes: Mapping[str, int]) -> Rows:
    """Every binary: a header, then a row each, sorted by target and kernel.

    A launch moves at least ``moved`` bytes at these sizes; ``us`` is the estimated time of that.
    """
    header = (
        *("target", "kernel", "registers", "spills", "shared", "warps", "bytes"),
        *("moved", "us"),
    )
    rows = [
        (
            *(target, name),
            *map(str, (b.registers, b.spills, b.shared, b.num_warps, b.bytes)),
            str(kernel.moved.evaluate(sizes)),
            _microseconds(kernel, target, sizes),
        )
        for name, kernel in manifest.kernels.items()
        for target, b in kernel.binaries.items()
    ]
    return [header, *sorted(rows)]


def _microseconds(kernel: Kernel, target: str, sizes: Mapping[str, int]) -> str:
    work = kernel.moved.evaluate(sizes), kernel.flops.evaluate(sizes)
    return (
        f"{estimate(*work, GPUS[int(target.rpartition('_')[2])]):.1f}"
        if target.startswith(("sm_", "ptx_"))
        else "-"
    )


def table(rows: Rows) -> str:
    """Aligned columns; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if _is_number(cell) else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def html_report(
    manifest: Manifest,
    archive: zipfile.ZipFile,
    sources: Mapping[str, str],
    sizes: Mapping[str, int],
) -> str:
    """The facts, the kernels and their sources as one self-contained file."""
    title = html.escape(f"{manifest.signature.name} {manifest.signature.version}")
    texts = "".join(
        f"<details><summary>{html.escape(name)}</summary><pre>{html.escape(text)}</pre></details>"
        for name, text in sorted(sources.items())
    )
    facts = "".join(map(_html_row, summary_rows(manifest, archive)))
    header, *kernels = kernel_rows(manifest, sizes)
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style><h1>{title}</h1><table>{facts}</table><h2>Kernels</h2>"
        f"<table><tr>{heads}</tr>{''.join(map(_html_row, kernels))}</table>"
        f"<h2>Sources</h2>{texts}</html>\n"
    )


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).isdecimal()


def _html_row(row: Sequence[str]) -> str:
    cells = (
        f'<td class="number">{cell}</td>' if _is_number(cell) else f"<td>{html.escape(cell)}</td>"
        for cell in row
    )
    return f"<tr>{''.join(cells)}</tr>"
