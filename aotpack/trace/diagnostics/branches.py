"""The conditions on sizes that Python asked for while a model was exported, with their answers.

torch.export takes each dynamic size for 2 or more. What follows from that leaves no guard:
``x.shape[1] == 1`` is False, and ``x.numel() >= 4`` is True for a tensor with two dynamic sizes.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn

from aotpack.trace.source import is_user_file

_LAYERS = str(Path(nn.__file__).parent)


@dataclass(frozen=True, slots=True)
class Branch:
    """A condition, a sympy expression of torch's symbols."""

    condition: Any
    answer: bool

    def holds(self, sizes: Mapping[Any, int]) -> bool:
        """Whether the answer is right for sizes by symbol; True where they do not decide it."""
        found = self.condition.subs(sizes)
        return not getattr(found, "is_Boolean", False) or bool(found) == self.answer


@dataclass(slots=True)
class Branches:
    """Inside the block, conditions that the model and torch's layers ask for are ``found``."""

    found: dict[tuple[str, bool], Branch] = field(default_factory=dict)
    _before: Any = None

    def __enter__(self) -> "Branches":
        before = self._before = torch.SymBool.__bool__

        def asked(condition: torch.SymBool) -> bool:
            answer = bool(before(condition))  # type: ignore[no-untyped-call]
            file = sys._getframe(1).f_code.co_filename
            if is_user_file(file) or file.startswith(_LAYERS):
                expr = condition.node.expr
                self.found.setdefault((str(expr), answer), Branch(expr, answer))
            return answer

        torch.SymBool.__bool__ = asked  # type: ignore[method-assign]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        torch.SymBool.__bool__ = self._before  # type: ignore[method-assign]


def broken(
    branches: Iterable[Branch], cases: Iterable[Mapping[Any, int]]
) -> Iterator[Mapping[Any, int]]:
    """For each answer that is not right in all cases, the first of those where it is not."""
    tried = list(cases)
    for branch in branches:
        yield from [sizes for sizes in tried if not branch.holds(sizes)][:1]
