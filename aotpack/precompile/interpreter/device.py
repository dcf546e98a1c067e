"""A device of the runtime that computes on host memory, through Triton's interpreter. For tests.

Triton's own switch (TRITON_INTERPRET) changes the whole process when triton is imported. Here
kernels are interpreted one launch at a time, so that the same process can compile.
"""

import copy
import ctypes
import functools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.jit import JITFunction

from aotpack.ir.dtypes import DType
from aotpack.precompile.interpreter import bfloat16, block_types
from aotpack.precompile.interpreter.cluster_memory import ClusterMemory
from aotpack.precompile.interpreter.libdevice import HostLibdevice
from aotpack.precompile.interpreter.reduction import associative_scan, reduce
from aotpack.precompile.interpreter.ring_memory import RingMemory
from aotpack.precompile.kernel_module import load_module
from aotpack.precompile.signature import POINTERS
from aotpack.runtime.devices.device import Step
from aotpack.runtime.errors import DeviceError
from aotpack.runtime.manifest import Binary, Kernel
from aotpack.target import INTERPRETER, Target

PLAN_ARCH = 80  # chooses the variants of the oldest target
_ALIGNMENT = 256
_PRECISIONS = ("tf32", "tf32x3", "bf16x6", "ieee")  # all are computed exactly here
_WAITS = r"(?:mbarrier|programs)_wait\(.*\)"  # for other programs of a cluster
_ENDED = object()
_ABSENT = object()
_CLUSTER = ClusterMemory()  # of the running programs
_RING = RingMemory()  # likewise
_VALIDATE_DESCRIPTOR = triton_interpreter.TensorDescHandle.validate
_STORE = triton_interpreter._interpreter.store
_ONE_AT_A_TIME = threading.RLock()  # a launch changes triton.language for its duration


@dataclass(frozen=True, slots=True)
class HostKernel:
    """A kernel as a Python function; ``types`` are its parameters, in Triton's types.

    With a cluster it is a generator, which yields where programs wait for each other.
    """

    name: str
    function: Callable[..., Any]
    types: tuple[Any, ...]
    cluster_size: int = 1


class InterpreterDevice:
    """Host memory and Triton's interpreter. Work is done on return: streams order nothing.

    ``package`` is the folder of a package that was not built for the interpreter: the texts of its
    kernels are interpreted, those of its first GPU target or of ``target``. A package may launch
    different kernels on each.
    """

    name = "cpu"
    place = (1, 0)

    def __init__(self, package: Path | None = None, target: Target | None = None) -> None:
        self.package = package
        self.target = target
        self.memory: dict[int, Any] = {}

    def __repr__(self) -> str:
        return f"<InterpreterDevice {self.name}>"

    def select(self, targets: Sequence[str]) -> tuple[str, int]:
        """The interpreter's own texts, or those of a GPU target of the package."""
        if self.target is None and str(INTERPRETER) in targets:
            return str(INTERPRETER), PLAN_ARCH
        written = [target for target in targets if target.startswith("sm_")]
        if self.target is not None:
            written = [target for target in written if target == str(self.target)]
        if self.package is None or not written:
            raise DeviceError(
                "choosing kernels for the interpreter: the package has kernels for"
                f" {', '.join(targets)}; build it with --target {self.target or INTERPRETER}"
            )
        return written[0], Target.parse(written[0]).arch

    def enter(self) -> bool:
        """No context to make current."""
        return False

    def leave(self) -> None:
        """No context to restore."""

    def alloc(self, size: int) -> int:
        """Host memory that this object keeps until ``free``."""
        block = ctypes.create_string_buffer(size + _ALIGNMENT)
        address = -(-ctypes.addressof(block) // _ALIGNMENT) * _ALIGNMENT
        self.memory[address] = block
        return address

    def free(self, address: int) -> None:
        """Drop a block of ``alloc``."""
        del self.memory[address]

    alloc_shared = alloc
    free_shared = free

    def lock(self, address: int, size: int) -> None:
        """Copies are the host's own work."""

    def unlock(self, address: int) -> None:
        """Nothing was locked."""

    def copy_in(self, target: int, source: int, size: int, stream: int) -> None:
        """All memory is host memory."""
        ctypes.memmove(target, source, size)

    copy_out = copy_in
    copy = copy_in

    def clear(self, address: int, size: int) -> None:
        """All memory is host memory."""
        ctypes.memset(address, 0, size)

    def synchronize(self, stream: int | None) -> None:
        """Every launch is done on return."""

    def event(self) -> int:
        """Events record nothing: work is done in program order."""
        return 0

    def record(self, event: int, stream: int) -> None:
        """See ``event``."""

    def wait(self, event: int, stream: int) -> None:
        """See ``event``."""

    def drop(self, event: int) -> None:
        """See ``event``."""

    def owner(self, address: int) -> int:
        """There is one host."""
        return 0

    def load(self, kernel: Kernel, binary: Binary, code: bytes) -> HostKernel:
        """The kernel's text as a Python function over blocks."""
        if not binary.file.endswith(".py") and self.package is not None:
            code = (self.package / kernel.source).read_bytes()
        types = tuple(
            pointer_type(str(arg.dtype)) if arg.pointer else scalar_type(str(arg.dtype))
            for arg in kernel.args
        )
        function = interpretable(binary.symbol, code.decode())
        return HostKernel(kernel.name, function, types, binary.num_ctas)

    def capture(self, stream: int) -> int:
        return 0

    def executor(
        self, steps: Sequence[Step], cells: "ctypes.Array[ctypes.c_uint64]", *, graphs: bool
    ) -> Callable[[int], None]:
        """A function that runs all steps, each with the current values of its cells.

        Steps run as late as others admit, so that a missing dependence of the plan changes the
        answer.
        """
        order = _latest_first(steps)

        def issue(stream: int) -> None:
            for step in order:
                launch(step.kernel, step.grid, [cells[slot] for slot in step.slots])

        return issue

    def close(self) -> None:
        """Nothing to unload. Memory goes with the arrays and arenas that hold it."""


def _latest_first(steps: Sequence[Step]) -> list[Step]:
    """The steps in the legal order that is farthest from their own."""
    waiting = dict(enumerate(steps))
    order = []
    while waiting:
        ready = (n for n, step in waiting.items() if waiting.keys().isdisjoint(step.after))
        order.append(waiting.pop(max(ready)))
    return order


def pointer_type(dtype: str) -> Any:
    """Triton's pointer to elements of a type."""
    return tl.str_to_ty(POINTERS[DType(dtype)], None)


def scalar_type(dtype: str) -> Any:
    """Triton's scalar of a type."""
    return pointer_type(dtype).element_ty


def interpretable(name: str, text: str) -> Callable[..., Any]:
    """The entry function of a kernel's text, rewritten for the interpreter."""
    try:
        text = re.sub(rf"^( +)({_WAITS})$", r"\1yield\n\1\2", text, flags=re.MULTILINE)
        text = re.sub(r"^( +)fence\(\)$", r"\1pass", text, flags=re.MULTILINE)
        text = re.sub(r"^( +)gdc_\w+\(\)$", r"\1pass", text, flags=re.MULTILINE)
        module = vars(load_module(name, text))
        told = _CLUSTER.functions() | _RING.functions()
        for key, value in tuple(module.items()):
            if isinstance(value, JITFunction):
                is_assembly = "inline_asm_elementwise" in value.src
                module[key] = told[key] if is_assembly and key in told else _rewritten(value.fn)
            elif getattr(value, "__name__", None) == "triton.language.extra.libdevice":
                module[key] = HostLibdevice()
        function: Callable[..., None] = module[name]
    except Exception as error:
        raise DeviceError(
            f"loading the kernel {name} into the interpreter failed: {error}"
        ) from error
    return function


def launch(kernel: HostKernel, grid: tuple[int, int, int], cells: Sequence[int]) -> None:
    """Run every program of a launch in order; the programs of a cluster alternate."""
    args = [_argument(cell, kind) for cell, kind in zip(cells, kernel.types, strict=True)]
    builder = triton_interpreter.interpreter_builder
    with _ONE_AT_A_TIME, _interpreted_language(), np.errstate(all="ignore"):
        x, y, z = grid
        builder.set_grid_dim(x * kernel.cluster_size, y, z)
        for row in np.ndindex(*grid):
            together = [
                (row[0] * kernel.cluster_size + part, *row[1:])
                for part in range(kernel.cluster_size)
            ]
            try:
                _run_together(kernel, together, args)
            except Exception as error:
                raise DeviceError(
                    f"interpreting the kernel {kernel.name}, program {row} of {grid}, failed:"
                    f" {type(error).__name__}: {error}"
                ) from error


def _run_together(
    kernel: HostKernel, indices: Sequence[tuple[int, ...]], args: Sequence[Any]
) -> None:
    """Run each program up to its next wait, repeatedly, until all have ended."""
    builder = triton_interpreter.interpreter_builder
    _CLUSTER.enter(indices)
    _RING.clear()
    running: dict[tuple[int, ...], Any] = {}
    for index in indices:
        builder.set_grid_idx(*index)
        running[index] = kernel.function(*args)
    while running:
        for index, program in tuple(running.items()):
            builder.set_grid_idx(*index)
            if program is None or next(program, _ENDED) is _ENDED:
                del running[index]


def _argument(cell: int, kind: Any) -> Any:
    """A cell as an interpreter scalar: an address, or an integer in two's complement."""
    if kind.is_ptr():
        return tl.tensor(triton_interpreter.TensorHandle(np.array([cell], np.uint64), kind), kind)
    width = kind.primitive_bitwidth
    value = np.array([cell & (1 << width) - 1], f"uint{width}").view(f"int{width}")
    return tl.tensor(triton_interpreter.TensorHandle(value, kind), kind)


def _rewritten(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the interpreter's assignments; triton calls combine functions by ``fn``."""
    rewritten: Any = triton_interpreter.FunctionRewriter(function).rewrite_ast()
    rewritten.fn = rewritten
    return rewritten  # type: ignore[no-any-return]


@functools.cache
def _library() -> tuple[tuple[Any, str, Callable[..., Any]], ...]:
    """Functions of triton.language written in Triton: (where, name, interpretable form)."""
    places = (tl.standard, tl, tl.random, tl.core, tl.math, tl.tensor)
    found = [
        (place, name, value)
        for place in places
        for name, value in tuple(vars(place).items())
        if isinstance(value, JITFunction)
    ]
    forms = {value: _rewritten(value.fn) for value in dict.fromkeys(value for _, _, value in found)}
    return tuple((place, name, forms[value]) for place, name, value in found)


@contextmanager
def _interpreted_language() -> Iterator[None]:
    """triton.language computes on numpy blocks inside the context.

    An exception may come at any time and leave some of it changed; the next launch sets that right.
    """
    forms, own = _forms(), _own_forms()
    try:
        for place, name, form in forms:
            setattr(place, name, form)
        yield
    finally:
        for place, name, form in own:
            if form is not _ABSENT:
                setattr(place, name, form)
            elif name in vars(place):
                delattr(place, name)


@functools.cache
def _own_forms() -> tuple[tuple[Any, str, Any], ...]:
    """What the replacements replace; asked for before the first of them is set."""
    return tuple((place, name, vars(place).get(name, _ABSENT)) for place, name, _ in _forms())


@functools.cache
def _forms() -> tuple[tuple[Any, str, Any], ...]:
    """The replacements while kernels are interpreted: (where, name, interpretable form)."""
    library = _library()
    with ExitStack() as scopes:
        found = []
        for user in (_splat, library[0][2]):  # kernels see tl like this module, the library tl.core
            scope = triton_interpreter._patch_lang(user)
            scopes.callback(scope.restore)
            found += [(place, name, vars(place)[name]) for place, name, _ in scope._changes]
    for place in (tl, tl.core):
        found += [(place, "reduce", reduce), (place, "associative_scan", associative_scan)]
    builder = triton_interpreter.interpreter_builder
    options = replace(
        builder.options,
        allowed_dot_input_precisions=_PRECISIONS,
        sanitize_overflow=False,  # for assertions of the debug mode alone
    )
    found += [
        *library,
        *bfloat16.replacements(),
        *block_types.replacements(),
        (tl.tensor, "__index__", lambda tensor: int(tensor.handle.data.item())),
        (builder, "options", options),
        (builder, "create_splat", _splat),
        (triton_interpreter.TensorDescHandle, "validate", _validate_descriptor),
        (triton_interpreter._interpreter, "store", _store),
    ]
    last = {(place, name): form for place, name, form in found}
    return tuple((place, name, form) for (place, name), form in last.items())


def _validate_descriptor(block: Any) -> None:
    """Triton's checks of a descriptor but that of its address: mapped files have any address."""
    handle = triton_interpreter.TensorHandle(block.base.data // 16 * 16, block.base.dtype)
    aligned = copy.copy(block)
    aligned.base = handle
    _VALIDATE_DESCRIPTOR(aligned)


def _store(pointers: Any, value: Any, mask: Any) -> None:
    """Triton's store; version 3.6 refuses numpy scalars, and blocks that repeat one number."""
    _STORE(*(np.require(block, requirements="W") for block in (pointers, value, mask)))


def _splat(kind: Any, value: Any) -> Any:
    """A block of one number. Triton's interpreter would make a comparison's an integer."""
    block = np.full(kind.shape, value.data.reshape(-1)[0], value.data.dtype)
    return triton_interpreter.TensorHandle(block, value.dtype.scalar)
