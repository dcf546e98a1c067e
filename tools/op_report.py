"""The results of op_coverage as a page: sums by family, faults and refusals with reasons, all rows.

A family is a list of operators by name. Those of ``LEFT_OUT`` are run and listed, but do not count:
no packaged kernel is meant to compute them, or there is nothing to compare with.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OUTCOMES = ("passed", "refused", "wrong", "crash", "hang")
SHOWN_OPERATORS = 8
WIDEST = 120  # columns of lines that are no rows

LEFT_OUT = {
    "linear algebra decompositions": (
        "linalg.(cholesky|cholesky_ex|cond|det|eig|eigh|eigvals|eigvalsh|householder_product|inv"
        "|inv_ex|ldl_factor|ldl_factor_ex|ldl_solve|lstsq|lstsq.grad_oriented|lu|lu_factor"
        "|lu_factor_ex|lu_solve|matrix_rank|matrix_rank.hermitian|pinv|pinv.hermitian"
        "|pinv.singular|qr|slogdet|solve|solve_ex|solve_triangular|svd|svdvals|tensorinv"
        "|tensorsolve)|cholesky|cholesky_inverse|cholesky_solve|geqrf|logdet|lu|lu_solve|lu_unpack"
        "|matrix_exp|norm.nuc|ormqr|pca_lowrank|pinverse|qr|svd|svd_lowrank|triangular_solve"
    ),
    "sparse tensors": "sparse[.].*|to_sparse",
    "random numbers": (
        "bernoulli|cauchy|exponential|geometric|log_normal|multinomial|normal|normal[.].*|uniform"
        "|rand_like|randint|randint_like|randn|randn_like|nn.functional.(alpha_dropout|dropout"
        "|dropout2d|dropout3d|feature_alpha_dropout.with_train|fractional_max_pool2d"
        "|fractional_max_pool3d|rrelu)"
    ),
    "memory without values": (
        "empty|empty_like|empty_permuted|empty_strided|new_empty|new_empty_strided|resize_"
        "|resize_as_"
    ),
    "gradients": ".*_backward|.*_backward_data|gradient.grad|nn.functional.max_unpool[123]d.grad",
    "kernels compiled by torch itself": "jiterator_.*|bmm.triton_optimized",
}
"""Patterns of whole names."""

FAMILIES = {
    "shapes or results that depend on data": (
        r"allclose|argwhere|bincount|combinations|equal|histogramdd|item|masked_select|nonzero"
        r"|repeat_interleave|unique|unique_consecutive"
    ),
    "Fourier transforms": r"fft[.].*|stft|istft",
    "signal windows": r"signal[.].*",
    "losses": r"nn.functional.(.*loss.*|.*entropy.*|kl_div)",
    "pooling and resizing": (
        r"nn.functional.(.*pool.*|interpolate.*|upsample.*|grid_sample|pixel_.*|unfold|channel_.*)"
        r"|grid_sampler_.*|_upsample.*"
    ),
    "convolutions": r"nn.functional.conv.*",
    "normalisations": r".*(_norm|batch_norm.*|normalize|local_response_norm|_norm_legit|_update)",
    "activations and other layers": r"nn.functional.*|softmax.*|log_softmax.*|torch.ops.*",
    "masked reductions": r"masked[.].*",
    "special functions": (
        r"special[.].*|polygamma.*|mvlgamma.*|igammac?|lgamma|digamma|i0|erf.*|sinc|logit"
    ),
    "matrix products": (
        r"addmm.*|addmv|addbmm|baddbmm|bmm|mm|mv|matmul|dot|vdot|outer|inner|einsum|tensordot|kron"
        r"|addr|__rmatmul__|linalg.(multi_dot|matrix_power|vecdot|cross|vander)|cross|torch._scaled.*"
    ),
    "reductions and scans": (
        r"sum|nansum|mean|nanmean|prod|std.*|var.*|amax|amin|aminmax|max.*|min.*|arg.*|all|any"
        r"|count_nonzero|norm.*|linalg.*norm.*|log.*sumexp|cum.*|logcumsumexp|median|nanmedian|mode"
        r"|quantile|nanquantile|cov|corrcoef|dist|cdist|trapz|trapezoid|renorm|trace|hash_tensor"
        r"|_segment_reduce.*|hist.*|sort|msort|topk|kthvalue|searchsorted|bucketize|isin"
    ),
    "indexing": (
        r"index.*|gather|scatter.*|take.*|put|masked.*|where|__getitem__|_unsafe_masked.*|select.*"
        r"|slice.*|nonzero_static|unravel_index|as_strided.*|diagonal_scatter|tri[lu]_indices"
    ),
    "creation": (
        r"arange|zeros.*|ones.*|new_.*|full.*|eye|linspace.*|logspace.*|scalar_tensor|fill|zero_"
    ),
    "complex numbers": (
        r"complex|polar|real|imag|view_as_complex|view_as_real|conj.*|resolve_.*|angle|isreal"
        r"|c(double|float)|chalf"
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """All samples of an operator with one element type."""

    op: str
    dtype: str
    counts: Mapping[str, int]
    failures: tuple[Mapping[str, Any], ...]

    @property
    def family(self) -> str:
        for name, pattern in FAMILIES.items():
            if re.fullmatch(pattern, self.op):
                return name
        return "elementwise, shapes and others"

    @property
    def left_out(self) -> str | None:
        """The family of an operator that does not count; else None."""
        for name, pattern in LEFT_OUT.items():
            if re.fullmatch(pattern, self.op):
                return name
        return None


def read_rows(folder: Path) -> list[Row]:
    """The lines of every result file; of a repeated task the last."""
    rows: dict[tuple[str, str], Row] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in map(json.loads, file.read_text().splitlines()):
            row = Row(line["op"], line["dtype"], line["counts"], tuple(line["failures"]))
            rows[row.op, row.dtype] = row
    return [rows[key] for key in sorted(rows)]


def write_report(folder: Path, target: Path) -> int:
    """Write the page; 1 when something that counts is wrong, crashes or hangs."""
    rows = read_rows(folder)
    counted = [row for row in rows if row.left_out is None]
    target.write_text("\n".join(_page(rows, counted)) + "\n")
    total = _sum(counted)
    print(f"{target}: {_share(total)} passed; " + ", ".join(f"{total[o]} {o}" for o in OUTCOMES))
    return int(any(total[outcome] for outcome in ("wrong", "crash", "hang")))


def _paragraph(words: str) -> str:
    return textwrap.fill(words, WIDEST, break_long_words=False, break_on_hyphens=False)


def _page(rows: list[Row], counted: list[Row]) -> Iterable[str]:
    total = _sum(counted)
    most = max((sum(row.counts.get(name, 0) for name in OUTCOMES) for row in rows), default=0)
    yield "# Coverage of PyTorch's operators"
    yield ""
    yield _paragraph(
        "`tools/op_coverage.py` compiles the samples of torch's operator database for the target "
        "cpu and compares them with eager under the accuracy law. The columns count samples, at "
        f"most {most} of an operator and a type."
    )
    yield ""
    yield _paragraph(
        f"**{_share(total)}** of the samples that count pass; {total['redrawn']} of them only when "
        "the law is held of the worst errors of 33 draws near the sample, ours and eager's."
    )
    yield ""
    yield from _families(counted)
    yield "## Families that do not count"
    yield ""
    yield from _left_out(rows)
    for outcome in ("wrong", "crash", "hang", "refused"):
        yield from _reasons(counted, outcome)
    yield "## All operators"
    yield ""
    yield "Operators of which every sample of every type passes are listed by name alone."
    yield ""
    yield from _operators(counted)


def _sum(rows: Iterable[Row]) -> Counter[str]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.counts)
    return total


def _share(counts: Mapping[str, int]) -> str:
    tried = sum(counts.get(outcome, 0) for outcome in OUTCOMES)
    return f"{100 * counts.get('passed', 0) / tried:.1f} %" if tried else "none"


def _cells(counts: Mapping[str, int]) -> str:
    return " | ".join(str(counts.get(outcome, 0)) for outcome in OUTCOMES)


def _head(first: str, *more: str) -> list[str]:
    names = [first, *OUTCOMES, *more]
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]


def _families(rows: list[Row]) -> Iterable[str]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.family].append(row)
    yield from _head("family", "share")
    for name, members in sorted(groups.items()):
        counts = _sum(members)
        yield f"| {name} | {_cells(counts)} | {_share(counts)} |"
    counts = _sum(rows)
    yield f"| all | {_cells(counts)} | {_share(counts)} |"
    yield ""


def _left_out(rows: list[Row]) -> Iterable[str]:
    yield from _head("family", "operators")
    for name in LEFT_OUT:
        members = [row for row in rows if row.left_out == name]
        names = ", ".join(f"`{op}`" for op in dict.fromkeys(row.op for row in members))
        yield f"| {name} | {_cells(_sum(members))} | {names} |"
    yield ""


def _reasons(rows: list[Row], outcome: str) -> Iterable[str]:
    """The messages, by the number of their samples."""
    samples: Counter[str] = Counter()
    operators: dict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        for failure in row.failures:
            if failure["outcome"] == outcome:
                reason = _general(failure["words"])
                samples[reason] += 1
                operators[reason][row.op] = None
    yield f"## {outcome.capitalize()}"
    yield ""
    if not samples:
        yield "None."
        yield ""
        return
    yield "| samples | what is said | operators |"
    yield "|---|---|---|"
    for reason, count in sorted(samples.items(), key=lambda item: (-item[1], item[0])):
        names = list(operators[reason])
        shown = ", ".join(f"`{name}`" for name in names[:SHOWN_OPERATORS])
        more = f" and {len(names) - SHOWN_OPERATORS} more" if len(names) > SHOWN_OPERATORS else ""
        yield f"| {count} | {reason} | {shown}{more} |"
    yield ""


def _general(words: str) -> str:
    """The message without the parts that differ between samples, as a cell of a table."""
    words = re.sub(r" ?\(\d+ calls?\)", "", words)
    words = re.sub(r"(?<![\w.])\d+(\.\d+)?(e[+-]?\d+)?(?!\w)", "N", words)  # not those of names
    words = re.sub(r"\b([su])\d+\b", r"\g<1>0", words)  # symbols of torch: s3, u7
    return words.replace("|", "\\|").replace("  ", " ").strip()


def _operators(rows: list[Row]) -> Iterable[str]:
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_name[row.op].append(row)
    full, partial = [], []
    for name, members in by_name.items():
        counts = _sum(members)
        whole = counts["passed"] == sum(counts[outcome] for outcome in OUTCOMES)
        (full if whole else partial).append(name)
    passed = (f"`{name}`\xa0({_sum(by_name[name])['passed']})" for name in full)
    yield _paragraph(", ".join(passed)).replace("\xa0", " ")
    yield ""
    yield from _head("operator", "types")
    for name in partial:
        members = by_name[name]
        yield f"| `{name}` | {_cells(_sum(members))} | {', '.join(map(_brief, members))} |"


def _brief(row: Row) -> str:
    tried = sum(row.counts.get(outcome, 0) for outcome in OUTCOMES)
    return f"{row.dtype} {row.counts.get('passed', 0)}/{tried}"
