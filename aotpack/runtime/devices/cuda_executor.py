"""Chooses how a plan runs on a GPU: as stream launches first, as a CUDA graph when sizes repeat.

A graph costs as much to build as some hundred launches, so sizes that are seen once never pay for
one; and it is built when the launches have been issued, while the GPU works on them.
"""

import ctypes
from collections.abc import Callable, Sequence
from warnings import warn

from ..errors import DeviceError
from .cuda_graph import GraphExecutor
from .cuda_launch import StreamExecutor, relaxed
from .device import Step

FEWEST = 2  # one launch costs what launching a graph does
BUILT_AT = 2  # the issue of the same steps that is followed by building the graph


class CudaExecutor:
    """Steps that may be issued again and again."""

    def __init__(
        self,
        device: str,
        library: ctypes.CDLL,
        steps: Sequence[Step],
        cells: "ctypes.Array[ctypes.c_uint64]",
    ) -> None:
        self._library = library
        self._made = device, library, steps, cells
        self._issue = StreamExecutor(*self._made).issue
        self._issues = 0

    def issue(self, stream: int) -> None:
        """Issue all steps to ``stream``."""
        self._issue(stream)
        if self._issues < BUILT_AT:
            self._issues += 1
            if self._issues == BUILT_AT:
                self._build(stream)

    def _build(self, stream: int) -> None:
        try:
            with relaxed(self._library):  # another thread may be capturing
                graph = GraphExecutor(*self._made)
                graph.upload(stream)
            self._issue = graph.issue
        except DeviceError as error:
            warn(f"{error} Launches go on one by one.", RuntimeWarning, stacklevel=2)


def cuda_executor(
    device: str,
    library: ctypes.CDLL,
    steps: Sequence[Step],
    cells: "ctypes.Array[ctypes.c_uint64]",
    *,
    graphs: bool,
) -> Callable[[int], None]:
    """The function of the stream that issues the steps."""
    kind = CudaExecutor if graphs and len(steps) >= FEWEST else StreamExecutor
    return kind(device, library, steps, cells).issue
