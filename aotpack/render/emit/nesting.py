"""How deep values are nested, through the members of a kernel, and which axes they depend on.

Nothing here recurses over values. An ``Emitter`` does, so it first names what is nested deeper than
Python's stack allows; ``DEEPEST`` counts its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import TypeAlias

from aotpack.ir.symbolic.integers import Axis, Extremum, Indirect, Int, Quotient, Remainder
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value, children
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.regions import Region
from aotpack.render.emit.scope import Scoped

Resolve: TypeAlias = Callable[[Load], "Value | str | None"]
"""What stands for a load: a value to be computed, a name that holds it, or None for memory."""

DEEPEST = 400  # calls, of the 1000 that Python allows
_CALLS = {Const: 0, IndexValue: 9, Load: 10, Apply: 4, Guarded: 4}  # of an emitter, for one value


class Nesting:
    """The parts of values; ``resolve`` gives the value or name that a load of a result has."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._depths: dict[Value, int] = {}

    def parts(self, value: Value) -> tuple[Value, ...]:
        """The values that an emitter needs directly for this one."""
        found = self._resolve(value) if isinstance(value, Load) else None
        return children(value) if found is None or isinstance(found, str) else (found,)

    def innermost_first(self, root: Value, known: Container[Value]) -> Iterator[Value]:
        """The values inside ``root`` and itself, parts first; not those that are known already."""
        stack = [(root, False)]
        seen: set[Value] = set()
        while stack:
            value, is_ready = stack.pop()
            if is_ready:
                yield value
            elif value not in seen and value not in known:
                seen.add(value)
                stack.append((value, True))
                stack += [(part, False) for part in reversed(self.parts(value))]

    def is_deep(self, value: Value) -> bool:
        """True when emitting the value takes more calls than ``DEEPEST``."""
        if value not in self._depths:
            for part in self.innermost_first(value, self._depths):
                inside = max((self._depths[inner] for inner in self.parts(part)), default=0)
                self._depths[part] = inside + _CALLS[type(part)]
        return self._depths[value] > DEEPEST


class Dependent(Scoped):
    """Knows the kernel axes that values and integers depend on in its scope."""

    def __init__(self, region: Region, frame: Frame, resolve: Resolve) -> None:
        super().__init__(region, frame)
        self._resolve = resolve
        self._nesting = Nesting(resolve)
        self._needs: dict[Value, frozenset[Axis]] = {}

    def needs(self, value: Value) -> frozenset[Axis]:
        """The kernel axes a value depends on, through members' results too."""
        if value not in self._needs:
            for part in self._nesting.innermost_first(value, self._needs):
                self._needs[part] = self._value_needs(part)
        return self._needs[value]

    def _value_needs(self, value: Value) -> frozenset[Axis]:
        match value:
            case Const():
                return frozenset()
            case IndexValue():
                return self.index_needs(value.index)
            case Load():
                resolved = self._resolve(value)
                if resolved is not None and not isinstance(resolved, str):
                    return self.needs(resolved)
                made_for = self.scope.made_for if resolved is not None else frozenset()
                return made_for.union(*map(self.index_needs, value.index))
            case Apply():
                return frozenset().union(*map(self.needs, value.args))
            case Guarded():
                parts = (value.condition, value.value, value.otherwise)
                return frozenset().union(*map(self.needs, parts))

    def index_needs(self, expression: Int) -> frozenset[Axis]:
        """The kernel axes an integer depends on."""
        found: set[Axis] = set()
        for atom in expression.atoms():
            if isinstance(atom, Axis):
                found.add(atom)
            elif isinstance(atom, Indirect):
                found |= self.needs(atom.value)
            elif isinstance(atom, Extremum):
                found |= self.index_needs(atom.a) | self.index_needs(atom.b)
            elif isinstance(atom, (Quotient, Remainder)) and self.frame.start(atom) is None:
                found |= self.index_needs(atom.num) | self.index_needs(atom.den)
        return frozenset(found)
