"""Chooses how a plan runs on a GPU: as stream launches first, as a CUDA graph when sizes repeat.

Building a graph costs about a hundred launches, so sizes that occur once get none. A graph is built
after the launches were issued, while the GPU executes them.
"""

import ctypes
from collections.abc import Callable, Sequence
from warnings import warn

from ..errors import DeviceError
from .cuda_graph import GraphExecutor
from .cuda_launch import StreamExecutor, relaxed
from .device import Step

FEWEST = 2  # a single launch costs as much as a graph launch
BUILT_AT = 2  # the graph is built after this issue of the same steps


class CudaExecutor:
    """Steps that may be issued repeatedly."""

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
