"""torch's solver of conditions on sizes, which knows few forms.

It is asked for suggestions even where conditions are asserted, and fails at quotients of quotients,
as of an image that is halved twice: ``2*(((n + 1) // 2) // 2) - 2 < (n + 1) // 2``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx.experimental.symbolic_shapes import DimConstraints

from aotpack.trace.diagnostics.evaluated import DIVISIONS


@contextmanager
def without_quotients() -> Iterator[None]:
    """Inside the block, the solver is not asked about quotients and remainders."""
    before = DimConstraints.add

    def add(constraints: DimConstraints, condition: Any) -> bool:
        return False if condition.has(*DIVISIONS) else before(constraints, condition)

    DimConstraints.add = add  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        DimConstraints.add = before  # type: ignore[method-assign]
