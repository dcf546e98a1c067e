"""Recompiles kernels that spill registers with more warps.

The candidates of a kernel for a target have its number of warps, twice and four times it and so on:
the same text, grid and answers. The first below the limit is taken, else the one that spills least.
The refused ones are reported, for a package to explain. A kernel with a ring counts its threads in
its text: it has no candidates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from aotpack.precompile.request import Request
from aotpack.stages import Binary, Refused

SPILL_LIMIT = 64  # bytes of local memory a thread: 16 registers
MOST_WARPS = 32  # of a block on every architecture
Compile: TypeAlias = Callable[[Sequence[Request]], Mapping[Request, Binary | None]]


def settle(
    requests: Sequence[Request], compile_some: Compile
) -> tuple[list[Binary], tuple[Refused, ...]]:
    """One binary for each request, and the refused ones; ``compile_some`` may refuse a retry.

    A request whose first compilation it refuses has none.
    """
    tried: dict[Request, list[Binary]] = {request: [] for request in requests}
    latest = {request: request for request in requests}
    while latest:
        found = compile_some(tuple(latest.values()))
        wider: dict[Request, Request] = {}
        for request, form in latest.items():
            binary = found[form]
            if binary is None:
                continue
            tried[request].append(binary)
            may_widen = 2 * form.num_warps <= MOST_WARPS and not form.ring_bytes
            if binary.spills > SPILL_LIMIT and may_widen:
                wider[request] = replace(form, num_warps=2 * form.num_warps, gluon_text="")
        latest = wider
    chosen = {request: _best(forms) for request, forms in tried.items() if forms}
    refused = tuple(
        Refused(form.kernel, form.target, form.num_warps, form.spills)
        for request, forms in tried.items()
        for form in forms
        if form is not chosen[request]
    )
    return list(chosen.values()), tuple(sorted(refused))


def _best(forms: Sequence[Binary]) -> Binary:
    """The first below the limit, else the first of those that spill least."""
    below = [form for form in forms if form.spills <= SPILL_LIMIT]
    return below[0] if below else min(forms, key=lambda form: form.spills)
