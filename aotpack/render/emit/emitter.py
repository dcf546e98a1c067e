"""Values -> lines of a kernel: each distinct value is one temporary, hoisted as far as possible.

Loop kernels and the load and store slots of templates use it alike. It settles index arithmetic,
masks and common subexpressions; templates only place the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.rows import Row
from aotpack.ir.ops.fold import fold
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value
from aotpack.render.emit.arguments import Arguments
from aotpack.render.emit.dialect import Dialect
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.integers import Integers, is_of_integers
from aotpack.render.emit.regions import Computed, Region

PACKED_BITS = 16  # of elements; a register holds two
Shortcut: TypeAlias = "Callable[[Emitter, Apply, bool], str | None]"
"""A cheaper text of an operation, if it has one; the flag says that 16 bits are kept of it."""


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """What a kernel's values are written with, all the way through.

    ``awaited`` buffers are written by other programs of the launch. With ``unpack`` elements of 16
    bits stay packed in registers; it gives the text that widens them at each use. With ``spread``
    each thread loads what it needs along the last dimension of a tile, though others have it too.
    """

    awaited: Collection[str] = ()
    unpack: Callable[[str], str] | None = None
    shortcut: Shortcut | None = None
    spread: bool = False


PLAIN = EmitOptions()


class Emitter(Integers):
    """Writes the lines that compute values in a frame, into regions.

    ``offset`` gives the element offset of a load, ``row`` the padded rows of a buffer, ``resolve``
    the value or name of a load of the kernel's own results (None: memory). ``ends_in`` is the
    16-bit type that all results are rounded to, if any: then the op table's cheaper forms do,
    except for ``exact`` values.
    """

    def __init__(
        self,
        frame: Frame,
        region: Region,
        arguments: Arguments,
        offset: Callable[[Load], Int],
        row: Callable[[str], Row | None],
        resolve: Callable[[Load], Value | str | None],
        fresh: Callable[[str], str],
        dialect: Dialect,
        *,
        ends_in: DType | None,
        exact: Collection[Value] = (),
        options: EmitOptions = PLAIN,
    ) -> None:
        super().__init__(region, frame, resolve, arguments, fresh, dialect)
        self._offset = offset
        self._row = row
        self._ends_in = ends_in
        self._exact = exact
        self._options = options

    @property
    def ends_short(self) -> bool:
        """True where all results are rounded to 16 bits."""
        return self._ends_in is not None

    # --- values

    def value(self, value: Value) -> str:
        """The text (a name or a literal) of a value; emits what is missing."""
        if isinstance(value, Const):
            return self.dialect.literal(value)
        key = Computed(value, self._guards)
        found = self.region.find(key)
        if found is not None:
            return found
        if self._nesting.is_deep(value):
            self._name_inner(value)
        text = self._compute(value)
        needs = self.needs(value) | self._guard_needs
        home = self._home(value, needs)
        name = text if text.isidentifier() else self._assign(text, home, value.dtype)
        home.names[key] = name
        return name

    def _name_inner(self, root: Value) -> None:
        """Emit the parts of a value in their order, but deep ones without a nested call."""
        path = [(root, self._emitted_parts(root))]
        while path:
            value, rest = path[-1]
            part = next(rest, None)
            if part is None:
                path.pop()
                if path:
                    self.value(value)
            elif not self._nesting.is_deep(part):
                self.value(part)
            elif self.region.find(Computed(part, self._guards)) is None:
                path.append((part, self._emitted_parts(part)))

    def _emitted_parts(self, value: Value) -> Iterator[Value]:
        """The parts of a value, each while its guards hold."""
        if not isinstance(value, Guarded):
            yield from self._nesting.parts(value)
            return
        yield value.condition
        with self._guarded_by(value.condition):
            yield value.value
        yield value.otherwise

    def _home(self, value: Value, needs: frozenset[Axis]) -> Region:
        """The region of a value's line: the outermost one; for widened elements the current one."""
        if self._options.unpack is None or self._stays(value):
            return self.region.home(needs)
        return self.region

    def _stays(self, value: Value) -> bool:
        """True for elements of a resident row that need no widening."""
        if not isinstance(value, Load) or self._resolve(value) is not None:
            return False
        return not self._is_packed(value)

    def _is_packed(self, load: Load) -> bool:
        stored = self.arguments.dtype(load.buffer)
        is_short = stored is not load.dtype and stored.facts.bits == PACKED_BITS
        return self._options.unpack is not None and is_short

    def forget(self, inner: Axis) -> None:
        """Recompute values of an axis from here on: packed elements take fewer registers."""
        if self._options.unpack is None:
            return
        for key in [key for key in self.region.names if isinstance(key, Computed)]:
            if inner in self.needs(key.value) and not self._stays(key.value):
                del self.region.names[key]

    def _compute(self, value: Value) -> str:
        match value:
            case IndexValue():
                return self.dialect.index_value(self.index(value.index), value.dtype)
            case Load():
                return self._load(value)
            case Apply():
                return self._apply(value)
            case Guarded():
                return self._guarded(value)
            case Const():
                return self.dialect.literal(value)

    def _apply(self, value: Apply) -> str:
        is_exact, shortcut = value in self._exact, self._options.shortcut
        short = None
        if shortcut is not None and not is_exact:
            short = shortcut(self, value, self.ends_short)
        if short is not None:
            return short
        if is_of_integers(value):
            return self.comparison(value)
        known = tuple(map(self.made, value.args))
        if all(isinstance(arg, Const) for arg in known):
            return self.value(fold(Apply(value.op, known, value.dtype)))
        args = tuple(self.value(arg) for arg in value.args)
        ends_in = None if is_exact else self._ends_in
        return self.dialect.apply(value.op, args, value.args[-1].dtype, value.dtype, ends_in)

    def made(self, value: Value) -> Value:
        """The value that a load of the kernel's own results stands for."""
        while isinstance(value, Load):
            found = self._resolve(value)
            if found is None or isinstance(found, str):
                break
            value = found
        return value

    def once(self, text: str, dtype: DType) -> str:
        """The name of a number that is uniform over a row, by its text."""
        name = self.region.find(text)
        if name is None:
            name = self.region.names[text] = self._assign(text, self.region, dtype)
        return name

    def _load(self, load: Load) -> str:
        resolved = self._resolve(load)
        if isinstance(resolved, str):
            return resolved
        if resolved is not None:
            return self.value(resolved)
        stored = self.arguments.dtype(load.buffer)
        shared = self.scope.shared_reads
        read = shared.get((load.buffer, self._offset(load))) if shared else None
        if read is not None:
            text, dtype = read
            return text if dtype is load.dtype else self.dialect.cast(text, dtype, load.dtype)
        unpack = self._options.unpack
        if unpack is not None and self._is_packed(load):
            return self.dialect.cast(unpack(self._packed(load)), stored, load.dtype)
        raw = self._raw_load(load)
        return raw if stored is load.dtype else self.dialect.cast(raw, stored, load.dtype)

    def _packed(self, load: Load) -> str:
        """The name of a load's packed elements."""
        key = (load, self._guards, "packed")
        name = self.region.find(key)
        if name is None:
            home = self.region.home(self.needs(load) | self._guard_needs)
            name = self._assign(self._raw_load(load), home, self.arguments.dtype(load.buffer))
            home.names[key] = name
        return name

    def _raw_load(
        self, load: Load, inner: Axis | None = None, over: frozenset[Axis] = frozenset()
    ) -> str:
        """The element as stored, for points ``over`` axes; past the end of ``inner``, 0."""
        offset = self._offset(load)
        address = self.dialect.address(self.arguments.pointer(load.buffer), self.index(offset))
        address = self._broadcast(address, self.index_needs(offset), over) if over else address
        needs = self.index_needs(offset) | over
        masks, gap = self._checks(load.buffer, offset, needs)
        conditions = [*masks, *self._guards]
        if self._options.spread and self.frame.blocks[-1][0] in needs:
            address = self._broadcast(address, needs, frozenset(dict(self.frame.blocks)))
        elif conditions:
            address = self._broadcast(address, needs, needs | self._guard_needs)
        is_awaited = load.buffer in self._options.awaited
        keep = "past" if is_awaited else self.scope.cache.get(load.buffer, "")
        raw = self.dialect.load(address, conditions, self.arguments.dtype(load.buffer), keep)
        if gap is None or gap is not inner:
            return raw
        return self.dialect.where(self.frame.masks[gap], raw, "0")

    def as_stored(self, load: Load) -> str:
        """The name of an element of memory in the type it has there."""
        return self._assign(self._raw_load(load), self.region, self.arguments.dtype(load.buffer))

    def padded(self, load: Load, condition: Value) -> str:
        """An element where a condition holds, and 0 elsewhere."""
        key = (load, condition, "padded")
        name = self.region.find(key)
        if name is None:
            with self._guarded_by(condition):
                home = self.region.home(self.needs(load) | self._guard_needs)
                raw, stored = self._raw_load(load), self.arguments.dtype(load.buffer)
            text = raw if stored is load.dtype else self.dialect.cast(raw, stored, load.dtype)
            name = home.names[key] = self._assign(text, home, load.dtype)
        return name

    def address(self, buffer: str, offset: Int, names: Mapping[Axis, str]) -> str:
        """The address of elements whose axes have other names; offsets have no quotients."""
        with self.at(self.region, frame=replace(self.frame, names=names)):
            return self.dialect.address(self.arguments.pointer(buffer), self.index(offset))

    def operand(self, value: Value, dtype: DType, inner: Axis) -> str:
        """A tile for a matrix product: rounded to ``dtype``, zero past the end of ``inner``."""
        needs = self.needs(value)
        whole = needs | {axis for axis, _ in self.frame.blocks}
        is_whole = needs == whole
        if isinstance(value, Guarded) and is_whole and self._is_masked_load(value, dtype, inner):
            with self._guarded_by(value.condition):
                assert isinstance(value.value, Load)
                return self._assign(self._raw_load(value.value), self.region.home(needs), dtype)
        if isinstance(value, Load) and self._resolve(value) is None and inner in needs:
            over = frozenset[Axis]() if is_whole else whole
            if self.arguments.dtype(value.buffer) is dtype:
                raw = self._raw_load(value, inner, over)
                return self._assign(raw, self.region.home(whole), dtype)
            if is_whole and self._checks(value.buffer, self._offset(value), needs)[1] is not inner:
                rounded = self.dialect.cast(self.value(value), value.dtype, dtype)
                return self._assign(rounded, self.region.home(needs), dtype)
        text = self.value(value)
        if isinstance(value, Const):
            text = self.dialect.fill(self.frame.shape(frozenset()), text, dtype)
        if inner in self.frame.masks:
            text = self.dialect.where(self.frame.masks[inner], text, "0.0")
        text = self._broadcast(text, needs, whole)
        home = self.region.home(whole)
        return self._assign(self.dialect.cast(f"({text})", value.dtype, dtype), home, dtype)

    def _is_masked_load(self, value: Guarded, dtype: DType, inner: Axis) -> bool:
        """True for an element of ``dtype`` where a condition holds, and 0 elsewhere."""
        load, otherwise = value.value, value.otherwise
        if not isinstance(load, Load) or self._resolve(load) is not None:
            return False
        if self.arguments.dtype(load.buffer) is not dtype or self.needs(value) != self.needs(load):
            return False
        is_zero = isinstance(otherwise, Const) and otherwise.value == 0
        gap = self._checks(load.buffer, self._offset(load), self.needs(load))[1]
        return is_zero and gap is None

    def _guarded(self, value: Guarded) -> str:
        with self._guarded_by(value.condition) as condition:
            inner = self.value(value.value)
        return self.dialect.where(condition, inner, self.value(value.otherwise))

    @contextmanager
    def _guarded_by(self, condition: Value) -> Iterator[str]:
        """Inside the block, loads are masked by a condition, which has the name given."""
        outside, name = (self._guards, self._guard_needs), self.value(condition)
        self._guards = (*self._guards, name)
        self._guard_needs |= self.needs(condition)
        yield name
        self._guards, self._guard_needs = outside

    def _assign(self, text: str, home: Region, dtype: DType) -> str:
        name = self.fresh("t")
        home.append(self.dialect.declare(name, text, dtype))
        return name

    # --- bound checks

    def masks(self, needs: frozenset[Axis]) -> list[str]:
        """The bound checks an access that depends on these axes must obey, in tile order."""
        return [self.frame.masks[axis] for axis in self.frame.masks if axis in needs]

    def _checks(
        self, buffer: str, offset: Int, needs: frozenset[Axis]
    ) -> tuple[list[str], Axis | None]:
        """The bound checks of an access, and the axis along which it may run into the padding.

        Checks against the end of a padded row, which is whole vectors, keep vectors whole; checks
        against the end of the row would split them.
        """
        row = self._row(buffer)
        axis = row.walked_by(offset) if row is not None else None
        if row is None or axis is None or axis not in self.frame.masks:
            return self.masks(needs), None
        others = self.masks(needs - {axis})
        if row.pitch % dict(self.frame.blocks)[axis] == 0:
            return others, axis
        return [*others, f"({self.frame.names[axis]} < {row.pitch})"], axis

    # --- stores

    def store(
        self,
        buffer: str,
        offset: Int,
        value: str,
        axes: frozenset[Axis],
        conditions: Sequence[str] = (),
    ) -> str:
        """The statement that writes an element for each point of ``axes`` where conditions hold."""
        address = self.dialect.address(self.arguments.pointer(buffer), self.index(offset))
        address = self._broadcast(address, self.index_needs(offset), axes)
        masks, gap = self._checks(buffer, offset, axes)
        if gap is not None:
            value = self._cleared(value, self.frame.masks[gap])
        conditions = [*masks, *conditions]
        keep, dtype = self.scope.cache.get(buffer, ""), self.arguments.dtype(buffer)
        return self.dialect.store(address, value, conditions, dtype, keep)

    def _cleared(self, value: str, inside: str) -> str:
        """A value with 0 in the padding of a row, so that no reader finds a NaN there."""
        name = self.fresh("t")
        self.region.append(f"{name} = {self.dialect.where(inside, value, '0')}")
        return name

    def _broadcast(self, text: str, have: frozenset[Axis], want: frozenset[Axis]) -> str:
        """Broadcast a tile of some axes over the axes that its use needs."""
        if self.frame.spread(have) == self.frame.spread(want):
            return text
        return self.dialect.broadcast(text, self.frame.shape(want))
