"""Where an emitter writes: a region and how axes look in it; inner scopes end as they began."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.row_reads import Read
from aotpack.ir.symbolic.integers import Axis
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.regions import Region


@dataclass(frozen=True, slots=True)
class Scope:
    """The region that lines go into, and the frame in which values are computed there.

    ``cache`` says of buffers in what order caches may evict what is read or written. ``held`` are
    the texts and types of what is read from shared memory. Results of members differ from point to
    point of the axes ``made_for``.
    """

    region: Region
    frame: Frame
    cache: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[Read, tuple[str, DType]] = field(default_factory=dict)
    made_for: frozenset[Axis] = frozenset()


class Scoped:
    """Writes into one scope at a time."""

    def __init__(self, region: Region, frame: Frame) -> None:
        self._scope = Scope(region, frame)

    @property
    def scope(self) -> Scope:
        """The innermost scope that is open."""
        return self._scope

    @property
    def region(self) -> Region:
        """Where lines go."""
        return self._scope.region

    @property
    def frame(self) -> Frame:
        """How axes look there."""
        return self._scope.frame

    @contextmanager
    def at(
        self,
        region: Region,
        *,
        frame: Frame | None = None,
        cache: Mapping[str, str] | None = None,
        held: Mapping[Read, tuple[str, DType]] | None = None,
        made_for: frozenset[Axis] | None = None,
    ) -> Iterator[None]:
        """A scope for a region; what is not given is as in the scope around."""
        around = self._scope
        self._scope = Scope(
            region,
            around.frame if frame is None else frame,
            around.cache if cache is None else cache,
            around.held if held is None else held,
            around.made_for if made_for is None else made_for,
        )
        try:
            yield
        finally:
            self._scope = around
