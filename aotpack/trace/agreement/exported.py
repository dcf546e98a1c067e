"""torch.export must give the function of the model: its program is run beside eager.

What can make another function of a model: Python that asks whether it is exported, Python values
that change from call to call, a decomposition, an operator whose meaning export gets wrong.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.export import ExportedProgram

from aotpack.errors import TraceError
from aotpack.stages import Signature
from aotpack.trace.agreement.departure import Departure, departures
from aotpack.trace.agreement.values import difference
from aotpack.trace.eager import run_exported
from aotpack.trace.operators.random import Example

_ADVICE = (
    "A package would compute what was exported. Accepted is a model that computes the same while "
    "it is exported: look for torch.compiler.is_exporting() or is_compiling(), for Python values "
    "that change from call to call, and for decompositions of your own"
)


class AnotherFunction(TraceError):
    """What was exported departs from the model; other inputs do not excuse it."""


def check_export(
    module: nn.Module,
    program: ExportedProgram,
    example: Example,
    signature: Signature,
    eager: Sequence[torch.Tensor],
) -> Sequence[torch.Tensor]:
    """The results of a program; refused where they depart from ``eager``, the model's."""
    names = [*(spec.name for spec in signature.outputs), *signature.updates]
    found = run_exported(program, example, signature)
    if len(found) != len(eager):
        raise _refusal(signature, [f"it returns {len(found)} tensors, not {len(eager)}"], None)
    how = list(map(difference, eager, found))
    if any(how):
        seen = departures(module, program, example, signature)
        rows = zip(names, how, seen.excused.results(program, signature), strict=True)
        complaints = [f"{name} {one}" for name, one, excused in rows if one and not excused]
        if complaints:
            raise _refusal(signature, complaints, seen.first)
    return found


def _refusal(
    signature: Signature, complaints: Sequence[str], blamed: Departure | None
) -> AnotherFunction:
    place = "not found" if blamed is None else str(blamed)
    return AnotherFunction(
        f"exporting {signature.name}: torch.export gives another function than the model: on the "
        f"example inputs {'; '.join(complaints)}.\n"
        f"The first operator whose value departs: {place}\n{_ADVICE}."
    )
