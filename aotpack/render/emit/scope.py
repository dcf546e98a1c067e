"""Where an emitter writes: a region and its frame; leaving a scope restores the outer one."""

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

    ``cache`` gives the eviction policy of buffers. ``shared_reads`` are the texts and types of
    reads from shared memory. Results of members vary along the axes ``made_for``.
    """

    region: Region
    frame: Frame
    cache: Mapping[str, str] = field(default_factory=dict)
    shared_reads: Mapping[Read, tuple[str, DType]] = field(default_factory=dict)
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
        """The region that lines go into."""
        return self._scope.region

    @property
    def frame(self) -> Frame:
        """The frame of the region."""
        return self._scope.frame

    @contextmanager
    def at(
        self,
        region: Region,
        *,
        frame: Frame | None = None,
        cache: Mapping[str, str] | None = None,
        shared_reads: Mapping[Read, tuple[str, DType]] | None = None,
        made_for: frozenset[Axis] | None = None,
    ) -> Iterator[None]:
        """A scope for a region; arguments left out are those of the outer scope."""
        around = self._scope
        self._scope = Scope(
            region,
            around.frame if frame is None else frame,
            around.cache if cache is None else cache,
            around.shared_reads if shared_reads is None else shared_reads,
            around.made_for if made_for is None else made_for,
        )
        try:
            yield
        finally:
            self._scope = around
