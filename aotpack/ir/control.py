"""Operations that run programs: one of two (``Branch``), or one again and again (``Loop``).

    if p[()]:                    Branch(targets, p, (side, side))
        t = f(a)
    else:
        t = g(a)

    c = a                        Loop(targets, entry, p, test, None, body)
    p = test(c)
    while p[()]:
        c = body(c, b)
        p = test(c)

The programs are the operation's parts. A part has no weights and no outputs: its inputs are buffers
around it, by their own names, and its updates write the operation's targets. So a part computes on
its inputs as they are, and the new values of its targets take effect together at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aotpack.ir.symbolic.integers import Axis, Int, Var

if TYPE_CHECKING:
    from aotpack.ir.nodes import Origin, Program


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """The first side runs where ``predicate`` holds, else the second; each writes every target.

    The predicate is a bool buffer without dimensions, or an expression over sizes that is 0 or 1.
    """

    targets: tuple[str, ...]
    predicate: str | Int
    sides: tuple[Program, Program]
    origin: Origin

    @property
    def axes(self) -> tuple[Axis, ...]:
        """A branch has no points of its own."""
        return ()

    @property
    def parts(self) -> tuple[Program, ...]:
        return self.sides

    def with_parts(self, parts: tuple[Program, ...]) -> Branch:
        """The same with other programs for its parts."""
        first, second = parts
        return replace(self, sides=(first, second))


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """``entry`` gives the targets their first values; ``body`` runs and changes them.

    With a ``test``, the body runs while ``condition`` holds: a bool buffer without dimensions, one
    of the targets, which the test writes before each turn. Without one, ``condition`` is the number
    of turns. ``turn``, a size of the body alone, counts them from 0. A target that neither entry
    nor body has written is undefined.
    """

    targets: tuple[str, ...]
    entry: Program
    condition: str | Int
    test: Program | None
    turn: Var | None
    body: Program
    origin: Origin

    @property
    def axes(self) -> tuple[Axis, ...]:
        """A loop has no points of its own."""
        return ()

    @property
    def parts(self) -> tuple[Program, ...]:
        return (self.entry, self.body) if self.test is None else (self.entry, self.test, self.body)

    def with_parts(self, parts: tuple[Program, ...]) -> Loop:
        """The same with other programs for its parts."""
        if self.test is None:
            entry, body = parts
            return replace(self, entry=entry, body=body)
        entry, test, body = parts
        return replace(self, entry=entry, test=test, body=body)


def captured(operation: Branch | Loop) -> tuple[str, ...]:
    """The buffers around an operation that its parts read, and the predicate of a branch."""
    asked = (operation.predicate,) if isinstance(operation, Branch) else ()
    names = [name for name in asked if isinstance(name, str)]
    names += [name for part in operation.parts for name in part.inputs]
    return tuple(name for name in dict.fromkeys(names) if name not in operation.targets)
