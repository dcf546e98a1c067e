"""A package's facts as rows, and rows as plain text or as one HTML file."""

import zipfile
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from aotpack.commands.kernel_sources import Sources
from aotpack.devices import GPUS
from aotpack.errors import printable
from aotpack.render.report import Cell, Listing, Report, Table, render_report
from aotpack.runtime.manifest import Kernel, Manifest
from aotpack.runtime.tensors import Tensor, Weight, derived_text, weights_text
from aotpack.target import CPU
from aotpack.tune import estimate

Rows: TypeAlias = Sequence[tuple[str, str]]

GPU_HEADER = (
    *("target", "kernel", "registers", "spills", "shared", "warps", "bytes"),
    *("moved", "us"),
)
HOST_HEADER = ("target", "kernel", "bytes", "moved")


Sizes: TypeAlias = Mapping[str, Mapping[str, int]]
"""Those of the example inputs, by method."""


def summary_rows(manifest: Manifest, archive: zipfile.ZipFile, sizes: Sizes) -> Rows:
    """A (name, value) row for each fact of the package."""
    signature, methods = manifest.signature, manifest.entries.items()
    compilers = ", ".join(
        f"{name} {version}" for name, version in sorted(manifest.compilers.items())
    )
    rows = [
        ("package", f"{signature.name} {signature.version}"),
        ("built by", ", ".join(filter(None, (f"aotpack {manifest.aotpack}", compilers)))),
        ("targets", ", ".join(manifest.targets)),
        *(row for name, one in methods for row in _method_rows(name, one)),
        ("weights", f"{weights_text(manifest.weights)}, {manifest.weights_mode}"),
        *_code_rows(manifest.weights),
        *(row for name, one in methods for row in _memory_rows(name, one)),
        *(row for name, one in methods for row in _moved_rows(name, one, sizes[name])),
        *(("torch", f"runs {call.operator}: {call.reason}") for call in manifest.calls.values()),
        ("wheel", f"{sum(info.file_size for info in archive.infolist()):,} bytes unpacked"),
    ]
    return [(name, printable(fact)) for name, fact in rows]


def _method_rows(name: str, manifest: Manifest) -> Rows:
    """What a method takes, gives and checks."""
    signature = manifest.signature
    return [
        *([("method", str(signature).partition("\n")[0])] if name else []),
        *(("size", str(size)) for size in (*signature.sizes, *signature.counted)),
        *_tensors("input", signature.paths, signature.inputs),
        *_tensors("output", signature.labels, signature.outputs),
        *([("changes", ", ".join(signature.updates))] if name and signature.updates else []),
        *(("assertion", one.message) for one in signature.assertions),
    ]


def _code_rows(weights: Sequence[Weight]) -> Rows:
    """The weights that are codes: how they are stored, and what has a scale of its own.

    A byte may hold two codes of 4 bits: the shapes do not tell.
    """
    known = {one.name: one for one in weights}
    found: dict[str, list[str]] = {}
    for name, codes in known.items():
        stem = name.removesuffix("_codes")
        scales = known.get(f"{stem}_scales")
        if stem == name or scales is None:
            continue
        row = codes.shape[-1]
        count = row // scales.shape[-1] if scales.shape and scales.shape[-1] else 0
        of = f"each {count} bytes" if count and count < row else "each row"
        found.setdefault(f"{codes.dtype}, a scale for {of}", []).append(stem)
    return [("codes", f"{how}: {', '.join(names)}") for how, names in found.items()]


def _memory_rows(name: str, manifest: Manifest) -> Rows:
    """The bytes of a method, and its golden data."""
    head = name and f"{name}: "
    return [
        *(("derived", head + derived) for derived in derived_text(manifest.derived)),
        ("memory", f"{head}{manifest.peak_bytes:,} bytes for intermediates at the largest sizes"),
        ("golden", head + (manifest.golden.note or "inputs and results")),
    ]


def _moved_rows(name: str, manifest: Manifest, sizes: Mapping[str, int]) -> Rows:
    """The least bytes of a call, once for targets that agree."""
    targets: dict[int, list[str]] = {}
    for target, moved in manifest.moved.items():
        if sizes.keys() >= {*moved.names}:
            targets.setdefault(moved.evaluate(sizes), []).append(target)
    head = name and f"{name}: "
    return [
        (
            "moved",
            f"{head}{moved:,} bytes at least in a call, at the example's sizes: {', '.join(on)}",
        )
        for moved, on in targets.items()
    ]


def _tensors(what: str, names: Sequence[str], tensors: Sequence[Tensor]) -> Rows:
    pairs = zip(names, tensors, strict=True)
    return [(what, f"{name}: {tensor.type_text()}") for name, tensor in pairs]


def kernel_tables(
    manifest: Manifest, by_method: Sizes, host_bytes: Mapping[str, int]
) -> tuple[Table, ...]:
    """The binaries for GPUs and those for processors, sorted by target and kernel.

    A launch moves at least ``moved`` bytes at these sizes; ``us`` is the estimated time of that.
    ``host_bytes`` is the machine code of each kernel for processors, which share one file.
    """
    gpu, host = [], []
    sizes = {name: size for one in [*by_method.values()][::-1] for name, size in one.items()}
    for name, kernel in manifest.kernels.items():
        moved = _moved(kernel, sizes)
        for target, b in kernel.binaries.items():
            if target == str(CPU):
                host.append((target, name, str(host_bytes.get(name, "-")), moved))
                continue
            resources = map(str, (b.registers, b.spills, b.shared, b.num_warps, b.bytes))
            gpu.append((target, name, *resources, moved, _microseconds(kernel, target, sizes)))
    tables = (("Kernels for GPUs", GPU_HEADER, gpu), ("Kernels for processors", HOST_HEADER, host))
    return tuple(
        Table(title, header, tuple(map(_cells, sorted(rows))))
        for title, header, rows in tables
        if rows
    )


def _moved(kernel: Kernel, sizes: Mapping[str, int]) -> str:
    """The bytes of a launch; "-" where data decide them."""
    return str(kernel.moved.evaluate(sizes)) if sizes.keys() >= {*kernel.moved.names} else "-"


def _cells(row: Sequence[str]) -> tuple[Cell, ...]:
    return tuple(Cell(text, text.replace(".", "", 1).isdecimal()) for text in row)


def _microseconds(kernel: Kernel, target: str, sizes: Mapping[str, int]) -> str:
    if not sizes.keys() >= {*kernel.moved.names, *kernel.flops.names}:
        return "-"
    work = kernel.moved.evaluate(sizes), kernel.flops.evaluate(sizes)
    return (
        f"{estimate(*work, GPUS[int(target.rpartition('_')[2])]):.1f}"
        if target.startswith(("sm_", "ptx_"))
        else "-"
    )


def aligned(rows: Rows) -> str:
    """Aligned columns of text."""
    return _aligned(tuple(map(_cells, rows)))


def table_text(table: Table) -> str:
    """Aligned columns under a header; numbers to the right."""
    return _aligned((tuple(Cell(text, False) for text in table.header), *table.rows))


def _aligned(rows: Sequence[tuple[Cell, ...]]) -> str:
    widths = [max(len(cell.text) for cell in column) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.text.rjust(width) if cell.is_number else cell.text.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def html_report(facts: Rows, tables: tuple[Table, ...], sources: Sources) -> str:
    """The facts, the kernels and their sources as one self-contained file."""
    title = dict(facts)["package"]
    kernels = tuple(Listing(name, text) for name, text in sorted(sources.kernels.items()))
    shared = tuple(Listing(f"what {name} share", text) for name, text in sources.shared.items())
    return render_report(Report(title, tuple(facts), tables, (*kernels, *shared)))
