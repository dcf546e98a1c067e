"""torch.export must give the function of the model: its program is run beside eager.

What can make another function of a model: Python that asks whether it is exported, Python values
that change from call to call, a decomposition, an operator whose meaning export gets wrong.
"""

from collections.abc import Sequence

import torch

from aotpack.errors import TraceError
from aotpack.trace.agreement.departure import departures
from aotpack.trace.agreement.values import difference
from aotpack.trace.eager import Call, run_exported

_ADVICE = (
    "A package would compute what was exported. Accepted is a model that computes the same while "
    "it is exported: look for torch.compiler.is_exporting() or is_compiling(), for Python values "
    "that change from call to call, and for decompositions of your own"
)


class AnotherFunction(TraceError):
    """What was exported departs from the model; other inputs do not excuse it."""


def check_export(
    call: Call,
    eager: Sequence[torch.Tensor],
    where: str = "on the example inputs",
    advice: str = _ADVICE,
) -> Sequence[torch.Tensor]:
    """The results of a call's program; refused where they depart from ``eager``, the model's.

    ``where`` and ``advice`` are the refusal's words.
    """
    program, signature = call.program, call.signature
    names = [*(spec.name for spec in signature.outputs), *signature.updates]
    found = run_exported(program, call.example, signature, where=where.removesuffix(","))
    complaints, blamed = list[str](), None
    if len(found) != len(eager):
        complaints.append(f"it returns {len(found)} tensors, not {len(eager)}")
    elif any(how := list(map(difference, eager, found))):
        seen = departures(call.module, program, call.example, signature)
        rows = zip(names, how, seen.excused.results(program, signature), strict=True)
        complaints += [f"{name} {one}" for name, one, excused in rows if one and not excused]
        blamed = seen.first
    if complaints:
        raise AnotherFunction(
            f"exporting {signature.name}: torch.export gives another function than the model: "
            f"{where} {'; '.join(complaints)}.\nThe first operator whose value departs: "
            f"{'not found' if blamed is None else blamed}\n{advice}."
        )
    return found
