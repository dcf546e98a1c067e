"""Runs the steps of a plan as one CUDA graph, built node by node from their dependences.

The driver copies a node's parameters when they are set. So a call first updates, in the executable
graph, the nodes with an address that has changed since the last call. Work in flight keeps the
parameters of its launch.
"""

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from .cuda_errors import failure
from .cuda_launch import attributes, parameters
from .device import Step
from .tensor_maps import TensorMap, tensor_maps


class Node(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("params", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class Edge(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = (
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 5),
    )


_EARLY = Edge(from_port=1, type=1)  # programmatic port and type: the kernel itself waits

_UPDATES_KEPT = 64
_Update: TypeAlias = tuple[int, Sequence[TensorMap], ctypes.c_void_p, Any]


class GraphExecutor:
    """An executable graph of all steps; destroyed with this object."""

    def __init__(
        self,
        device: str,
        library: ctypes.CDLL,
        steps: Sequence[Step],
        cells: "ctypes.Array[ctypes.c_uint64]",
    ) -> None:
        self._device, self._library, self._steps = device, library, steps
        self._maps = [tensor_maps(library, step, cells) for step in steps]
        for one in (one for some in self._maps for one in some):
            one.refresh(device)
        pairs = zip(steps, self._maps, strict=True)
        self._params = [parameters(step, maps, cells) for step, maps in pairs]
        self._nodes = [
            _node(step, params) for step, params in zip(steps, self._params, strict=True)
        ]
        self._graph, self._executable = ctypes.c_void_p(), ctypes.c_void_p()
        self._stream, self._handle = 0, ctypes.c_void_p()  # of the last launch
        graph, executable = ctypes.byref(self._graph), ctypes.byref(self._executable)
        self._do("making a graph", library.cuGraphCreate(graph, 0))
        weakref.finalize(self, library.cuGraphDestroy, self._graph).atexit = False
        self._handles = [ctypes.c_void_p() for _ in steps]
        for number in range(len(steps)):
            self._add(number)
        flags = ctypes.c_ulonglong(0)
        made = library.cuGraphInstantiateWithFlags(executable, self._graph, flags)
        self._do("instantiating a graph", made)
        weakref.finalize(self, library.cuGraphExecDestroy, self._executable).atexit = False
        self._cells = np.ctypeslib.as_array(cells)
        self._set = self._cells.tobytes()  # the cells that the nodes' parameters were copied from
        self._users = _users(steps)
        self._updates: dict[tuple[int, ...], list[_Update]] = {}

    def upload(self, stream: int) -> None:
        """Upload the graph on ``stream``, which the first launch would do otherwise."""
        status = self._library.cuGraphUpload(self._executable, ctypes.c_void_p(stream))
        self._do("uploading a graph", status)

    def issue(self, stream: int) -> None:
        """Issue all steps to ``stream``."""
        given = self._cells.tobytes()
        if given != self._set:
            self._rebind(given)
        if stream != self._stream:
            self._stream, self._handle = stream, ctypes.c_void_p(stream)
        status = self._library.cuGraphLaunch(self._executable, self._handle)
        if status:
            self._do("launching a graph", status)

    def _rebind(self, given: bytes) -> None:
        """Set the parameters of the nodes that use changed cells."""
        differ = self._cells != np.frombuffer(self._set, np.uint64)
        changed = tuple(differ.nonzero()[0].tolist())
        update, executable = self._library.cuGraphExecKernelNodeSetParams_v2, self._executable
        for number, maps, handle, node in self._updates.get(changed) or self._updated(changed):
            for one in maps:
                one.refresh(self._device)
            status = update(executable, handle, node)
            if status:
                self._do(f"passing arguments to {self._steps[number].name}", status)
        self._set = given

    def _updated(self, cells: tuple[int, ...]) -> list[_Update]:
        """The nodes that use some of the cells; calls change the same ones again and again."""
        if len(self._updates) >= _UPDATES_KEPT:
            self._updates.clear()
        numbers = sorted({user for cell in cells for user in self._users.get(cell, ())})
        self._updates[cells] = [
            (number, self._maps[number], self._handles[number], ctypes.byref(self._nodes[number]))
            for number in numbers
        ]
        return self._updates[cells]

    def _add(self, number: int) -> None:
        step, library = self._steps[number], self._library
        nodes, doing = ctypes.c_void_p * len(step.after), f"adding {step.name} to a graph"
        before = nodes(*(self._handles[one].value for one in step.after))
        handle, node = self._handles[number], ctypes.byref(self._nodes[number])
        count, early = ctypes.c_size_t(len(step.after)), step.kernel.starts_early
        added = library.cuGraphAddKernelNode_v2(
            ctypes.byref(handle), self._graph, before, ctypes.c_size_t(0) if early else count, node
        )
        self._do(doing, added)
        if early and step.after:
            afters = nodes(*(handle.value for _ in step.after))
            edges = (Edge * len(step.after))(*(_EARLY for _ in step.after))
            linked = library.cuGraphAddDependencies_v2(self._graph, before, afters, edges, count)
            self._do(doing, linked)
        for attribute in attributes(step.kernel):
            value = ctypes.byref(attribute.value)
            self._do(doing, library.cuGraphKernelNodeSetAttribute(handle, attribute.id, value))

    def _do(self, doing: str, status: int) -> None:
        if status:
            raise failure(f"{doing} on {self._device}", status)


def _node(step: Step, params: "ctypes.Array[ctypes.c_void_p]") -> Node:
    function = step.kernel
    x, y, z = step.grid
    node = Node(function=function.handle, shared=function.shared)
    node.grid[:] = (x * function.num_ctas, y, z)
    node.block[:] = (function.threads, 1, 1)
    node.params = ctypes.addressof(params)
    return node


def _users(steps: Sequence[Step]) -> dict[int, list[int]]:
    """The steps that take each cell as an argument."""
    users: dict[int, list[int]] = {}
    for number, step in enumerate(steps):
        for slot in {*step.slots, step.scratch}:
            users.setdefault(slot, []).append(number)
    return users
