"""Copies to shared memory (cp.async), for Triton's interpreter: the functions of row pipelines.

See ``render/triton/loops/row_pipeline.py``. Stricter than the hardware: to read a vector before its
copy was awaited is an error, and a vector that was never copied has all bits set, which no result
may depend on.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import VECTOR_BYTES
from aotpack.precompile.interpreter.bfloat16 import widen
from aotpack.precompile.interpreter.libdevice import Block, make_tensor
from aotpack.precompile.signature import POINTERS

_KINDS = {
    str(dtype): tl.str_to_ty(POINTERS[dtype], None).element_ty
    for dtype in DType
    if dtype.facts.bits in (16, 32)
}
_NEVER = b"\xff" * VECTOR_BYTES


class RingMemory:
    """The shared memory of the running programs: vectors by program and place."""

    def __init__(self) -> None:
        self.vectors: dict[Any, dict[int, bytes]] = {}
        self.groups: dict[Any, list[dict[int, bytes]]] = {}

    def clear(self) -> None:
        """Forget the copies: other programs begin."""
        self.vectors, self.groups = {}, {}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The interpreted functions, by the names of those in assembly."""
        return {
            "open_ring": self._open,
            "async_copy": self._copy,
            "async_commit_group": lambda: self.groups[at_work()].append({}),
            "async_wait_group": self._await,
            **{f"load_shared_{dtype}": partial(self._load, kind=k) for dtype, k in _KINDS.items()},
        }

    def _open(self, threads: int) -> Any:
        self.vectors[at_work()], self.groups[at_work()] = {}, [{}]
        return make_tensor(np.arange(threads, dtype=np.int32) * VECTOR_BYTES, tl.int32)

    def _copy(self, place: Any, source: Any, is_there: Any) -> None:
        vectors, group = self.vectors[at_work()], self.groups[at_work()][-1]
        places, sources = place.handle.data, source.handle.data
        for where, address, is_one in zip(
            places, sources, np.broadcast_to(is_there.handle.data, places.shape), strict=True
        ):
            if is_one:
                vectors.pop(int(where), None)
                group[int(where)] = ctypes.string_at(int(address), VECTOR_BYTES)

    def _await(self, count: int) -> None:
        *ended, begun = self.groups[at_work()]
        there = max(0, len(ended) - int(count))
        for group in ended[:there]:
            self.vectors[at_work()].update(group)
        self.groups[at_work()] = [*ended[there:], begun]

    def _load(self, place: Any, *, kind: Any) -> Any:
        coming = {where for group in self.groups[at_work()] for where in group}
        places = [int(where) for where in place.handle.data]
        if coming.intersection(places):
            raise RuntimeError(f"{at_work()} reads what is still being copied")
        vectors = self.vectors[at_work()]
        text = b"".join(vectors.get(where, _NEVER) for where in places)
        if kind == tl.bfloat16:
            return make_tensor(_columns(widen(np.frombuffer(text, np.uint16)), places), tl.float32)
        block = np.frombuffer(text, triton_interpreter._get_np_dtype(kind))
        return make_tensor(_columns(block, places), kind)


def _columns(elements: Block, places: Sequence[int]) -> Block:
    """The vector of each place, as a column."""
    return np.ascontiguousarray(elements.reshape(len(places), -1).T)


def at_work() -> tuple[int, ...]:
    """The index of the program that is being interpreted."""
    return tuple(triton_interpreter.interpreter_builder.grid_idx)
