"""As much of the driver's library as launches and graphs need, over kernels that are functions.

A graph runs its nodes in the order farthest from the one they were added in: whatever may run late
does. So an edge that is missing shows in the answer.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from aotpack.runtime.devices.cuda_executor import cuda_executor
from aotpack.runtime.devices.cuda_graph import Node
from aotpack.runtime.devices.cuda_launch import Config, Function
from aotpack.runtime.devices.device import Step
from aotpack.runtime.manifest import Binary, Kernel

from .fake_device import FakeDevice

Call = tuple[int, tuple[int, ...], tuple[int, int, int]]
"""A kernel's number, what it is called with, and its grid."""


def _logged(work: Callable[..., None]) -> Callable[..., int]:
    """A call of the driver: it is noted, and does its work unless it is to fail."""

    @wraps(work)
    def call(library: "FakeLibrary", *args: Any) -> int:
        library.log.append(work.__name__)
        status = library.fails.get(work.__name__, 0)
        if not status:
            work(library, *args)
        return status

    return call


class FakeLibrary:
    """Handles are numbers from 1. ``log`` holds the names of the calls that were made.

    ``fails`` gives the status of calls that are to fail, ``alive`` counts graphs of both kinds.
    """

    def __init__(self) -> None:
        self.kernels: list[tuple[Callable[..., None], int]] = []
        self.nodes: list[tuple[int, Call, tuple[int, ...]]] = []  # graph, call, nodes before it
        self.executables: list[dict[int, Call]] = []
        self.attributes: list[tuple[int, int, int]] = []
        self.log: list[str] = []
        self.early_launches = 0
        self.fails: dict[str, int] = {}
        self.alive = 0
        self.forgets_edges = False
        self._graphs = 0

    def load(self, function: Callable[..., None], count: int) -> int:
        """The handle of a kernel with ``count`` arguments."""
        self.kernels.append((function, count))
        return len(self.kernels)

    @_logged
    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> None:
        return

    @_logged
    def cuLaunchKernelEx(self, config: Any, kernel: Any, params: Any, extra: Any) -> None:
        given = Config.from_address(config.value)
        asked = (given.attributes[number] for number in range(given.attribute_count))
        self.early_launches += any(one.id == 6 and one.value[0] == 1 for one in asked)
        self._run(self._call(kernel.value, params.value, tuple(given.grid)))

    @_logged
    def cuGraphCreate(self, graph: Any, flags: int) -> None:
        self._graphs += 1
        self.alive += 1
        graph._obj.value = self._graphs

    @_logged
    def cuGraphAddKernelNode_v2(
        self, handle: Any, graph: Any, before: Any, count: Any, node: Any
    ) -> None:
        edges = () if self.forgets_edges else tuple(before)[: count.value]
        self.nodes.append((graph.value, self._of(node), edges))
        handle._obj.value = len(self.nodes)

    @_logged
    def cuGraphAddDependencies_v2(
        self, graph: Any, before: Any, after: Any, edges: Any, count: Any
    ) -> None:
        assert all((edge.from_port, edge.to_port, edge.type) == (1, 0, 1) for edge in edges)
        assert len(before) == len(edges) == count.value
        (node,) = set(after)
        graph_of, call, _ = self.nodes[node - 1]
        self.nodes[node - 1] = graph_of, call, () if self.forgets_edges else tuple(before)

    @_logged
    def cuGraphKernelNodeSetAttribute(self, handle: Any, name: int, value: Any) -> None:
        self.attributes.append((handle.value, name, value._obj[0]))

    @_logged
    def cuGraphInstantiateWithFlags(self, executable: Any, graph: Any, flags: Any) -> None:
        own = {n: call for n, (of, call, _) in enumerate(self.nodes, 1) if of == graph.value}
        self.executables.append(own)
        self.alive += 1
        executable._obj.value = len(self.executables)

    @_logged
    def cuGraphExecKernelNodeSetParams_v2(self, executable: Any, handle: Any, node: Any) -> None:
        self.executables[executable.value - 1][handle.value] = self._of(node)

    @_logged
    def cuGraphUpload(self, executable: Any, stream: Any) -> None:
        assert executable.value

    @_logged
    def cuGraphLaunch(self, executable: Any, stream: Any) -> None:
        waiting = dict(self.executables[executable.value - 1])
        while waiting:
            ready = [n for n in waiting if not any(b in waiting for b in self.nodes[n - 1][2])]
            self._run(waiting.pop(max(ready)))

    @_logged
    def cuGraphDestroy(self, graph: Any) -> None:
        self.alive -= 1

    cuGraphExecDestroy = cuGraphDestroy

    def _of(self, node: Any) -> Call:
        found: Node = node._obj
        return self._call(found.function, found.params, tuple(found.grid))

    def _call(self, kernel: int, params: int, grid: tuple[int, ...]) -> Call:
        count = self.kernels[kernel - 1][1]
        cells = (ctypes.c_void_p * count).from_address(params)
        values = tuple(ctypes.c_uint64.from_address(cell).value for cell in cells)
        return kernel, values, (grid[0], grid[1], grid[2])

    def _run(self, call: Call) -> None:
        self.kernels[call[0] - 1][0](*call[1])


class FakeGpu(FakeDevice):
    """A fake device that issues its kernels as the port to a GPU does."""

    def __init__(self, *, starts_early: bool = False) -> None:
        super().__init__()
        self.library = FakeLibrary()
        self.starts_early = starts_early
        self.captures: dict[int, int] = {}

    def capture(self, stream: int) -> int:
        return self.captures.get(stream, 0)

    def load(self, kernel: Kernel, binary: Binary, code: bytes) -> Function:
        function = super().load(kernel, binary, code)
        handle = self.library.load(function, len(kernel.args))
        early = self.starts_early and kernel.reads_early
        return Function(handle, 128, 0, 1, self.starts_early, reads_early=early)

    def executor(
        self, steps: Sequence[Step], cells: "ctypes.Array[ctypes.c_uint64]", *, graphs: bool
    ) -> Callable[[int], None]:
        library: Any = self.library
        return cuda_executor(self.name, library, steps, cells, graphs=graphs)
