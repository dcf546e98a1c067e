"""Calls that need elements where a declared size may leave none: refused at the build."""

import itertools
import re
from collections.abc import Mapping

from torch import fx
from torch.export import ExportedProgram

from aotpack.errors import TraceError
from aotpack.ir.symbolic.integers import Var
from aotpack.trace.diagnostics.guards import admitted
from aotpack.trace.operators.counted.demands import Demand, demands_in
from aotpack.trace.sizes import Sizes
from aotpack.trace.source import source_of

_SOUGHT = 4096  # sizes, for the first that is right


def check_demands(name: str, program: ExportedProgram, sizes: Sizes) -> None:
    """Refuse a call that needs elements where an admitted size leaves none: eager raises there.

    torch.export makes no condition of all, as the maximum of ``x[3:]``. What data decide, a call
    of the package checks.
    """
    counted = {sizes.variables[symbol] for symbol in sizes.counted}
    for node, asked in demands_in(program.graph, sizes):
        variables = [one for one in asked.holds.leaves() if isinstance(one, Var)]
        if counted.isdisjoint(variables):
            numbers = [int(number) for number in re.findall(r"\b\d+\b", asked.text)]
            for values in admitted(variables, numbers):
                if asked.holds.evaluate(values) != 1:
                    raise _without_elements(name, node, asked, values)


def _without_elements(
    name: str, node: fx.Node, asked: Demand, values: Mapping[str, int]
) -> TraceError:
    found = ", ".join(f"{key}={value}" for key, value in values.items())
    ((key, value), *others) = values.items()
    tried = itertools.count(value) if not others else ()
    right = (n for n in itertools.islice(tried, _SOUGHT) if asked.holds.evaluate({key: n}) == 1)
    least = next(right, None)
    remedy = "a range where it holds" if least is None else f"min={least}"
    source = source_of(node)
    place = f"\n  at {source}" if source else ""
    return TraceError(
        f"exporting {name}: {node.target} needs {asked.text}, which does not hold for {found}. "
        f"Give the dimension {remedy}, or change the line.{place}"
    )
