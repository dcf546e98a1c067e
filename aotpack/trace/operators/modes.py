"""Function modes of torch in force while a model is exported and decomposed."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import lru_cache
from traceback import StackSummary
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket
from torch.export import ExportedProgram
from torch.fx import traceback
from torch.fx.proxy import TracerBase
from torch.overrides import TorchFunctionMode

from aotpack.trace.operators.control_flow.control import CONTROL
from aotpack.trace.source import is_user_file

_Mode: TypeAlias = Callable[[], TorchFunctionMode]
_CHECK = torch.ops.aten._assert_tensor_metadata.default
_OF_TORCH = "_higher_order_ops"  # the folder of branches and loops
_DATA_IN_BODIES: Any = getattr(torch._C._autograd, "_get_data_attr", None)  # what dynamo writes


@contextmanager
def patched(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Inside the block, a function of torch is what is made of it; one that torch lacks is left."""
    before = getattr(owner, name, None)
    if before is None:
        yield
        return
    setattr(owner, name, make(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def export_anew(*given: Any, **options: Any) -> ExportedProgram:
    """torch.export, without what dynamo compiled of branches and loops before.

    To see whether that fits, dynamo asks conditions on sizes, which would count as the model's. The
    user's functions stay compiled. Calls that raised, in a ``try`` of the model, are no part of the
    program, though torch records them.
    """
    dynamo: Any = importlib.import_module("torch._dynamo")
    for one in [*getattr(getattr(dynamo.convert_frame, "input_codes", None), "seen", ())]:
        code = one()
        if code is not None and _OF_TORCH in code.co_filename:
            dynamo.reset_code(code)
    program = torch.export.export(*given, **options)
    for part in program.graph_module.modules():
        if isinstance(part, fx.GraphModule):
            _drop_idle(part)
    return program


def _drop_idle(part: fx.GraphModule) -> None:
    """Erase calls that raised, and checks of the dtypes that the export has seen.

    torch cannot run these again on members of ``vmap`` that have dynamic sizes.
    """
    idle = [one for one in reversed(part.graph.nodes) if _has_failed(one) or one.target is _CHECK]
    for node in idle:
        part.graph.erase_node(node)
    if idle:
        part.recompile()


def _has_failed(node: fx.Node) -> bool:
    """True for a call that should have results, and gave none to anyone."""
    target, has_value = node.target, node.meta.get("val") is not None
    is_silent = not isinstance(target, OpOverload) or not target._schema.returns
    return not has_value and not is_silent and not node.users


def recorded_helpers() -> AbstractContextManager[None]:
    """Inside the block, torch records the lines of functions that ``forward`` calls too.

    They are those of the same package, or of no installed one: of a library that is called, the
    line of the call tells more.
    """

    def make(plain: Callable[..., StackSummary]) -> Callable[..., StackSummary]:
        def filtered(tracer: TracerBase, frames: StackSummary) -> StackSummary:
            kept = {id(frame) for frame in plain(tracer, frames)}
            package, found = None, []
            for frame in frames:
                own = _package(frame.filename)
                if frame.name == "forward":
                    package = own
                if id(frame) in kept or (own is not None and own == package):
                    found.append(frame)
            return StackSummary.from_list(found)

        return filtered

    return patched(TracerBase, "_filter_traceback_frames", make)


@lru_cache(maxsize=4096)
def _package(file: str) -> str | None:
    """The installed package of a user's file, "" if there is none; None for other files."""
    if not is_user_file(file):
        return None
    return file.replace("\\", "/").partition("site-packages/")[2].partition("/")[0]


@contextmanager
def in_bodies(mode: _Mode, *inside: _Mode) -> Iterator[None]:
    """Inside the block, a mode is in force, also where torch reads bodies of branches and loops.

    The others are in force in those bodies alone.
    """

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def run_node(output: Any, *given: Any) -> Any:
            is_body = output.current_tracer.parent is not None
            with AlsoInside(mode, *(inside if is_body else ()), inside=inside):
                return plain(output, *given)

        return run_node

    dynamo = importlib.import_module("torch._dynamo.utils")
    with patched(dynamo, "run_node", make), AlsoInside(mode, inside=inside):
        yield


class WithoutStreams(TorchFunctionMode):
    """Inside the block, functions that order streams (torch.cuda.stream, wait_stream) do nothing.

    They only order dependent work, and would need a GPU. A package orders its launches by data
    dependences. Export does not record most of them; in strict mode it records operators of the
    namespace "streams".
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        is_operator = isinstance(func, (OpOverload, OpOverloadPacket))
        if (is_operator and str(func).startswith("streams.")) or func is torch.Tensor.record_stream:
            return None
        return func(*args, **(kwargs or {}))


class WithoutKeywords(TorchFunctionMode):
    """Inside the block, ``x.random_(from, to)`` is ``x.random_()``: torch cannot write a "from".

    A program that draws is exported again, with a seed, which takes the ends.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.random_:
            return func(args[0])
        return func(*args, **(kwargs or {}))


class AlsoInside(TorchFunctionMode):
    """Inside the block, modes are in force, and in the graphs of control flow too.

    torch leaves a mode while it runs an operator, so also while it traces the graphs that
    ``cond``, ``while_loop``, ``map`` and ``scan`` take. Those of ``inside`` are in force in these
    graphs alone.
    """

    def __init__(self, *modes: _Mode, inside: tuple[_Mode, ...] = ()) -> None:
        super().__init__()
        self._modes = modes
        self._inside_alone = tuple(one for one in inside if one not in modes)
        self._entered = ExitStack()

    def __enter__(self) -> "AlsoInside":
        for mode in self._modes:
            self._entered.enter_context(mode())
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self._entered.close()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in CONTROL:
            args = tuple(self._inside(a) if isinstance(a, fx.GraphModule) else a for a in args)
        return func(*args, **(kwargs or {}))

    def _inside(self, part: fx.GraphModule) -> Callable[..., Any]:
        """A graph as a function that runs in the modes."""

        def run(*operands: Any) -> Any:
            modes = (*self._modes, *self._inside_alone)
            with AlsoInside(*modes), traceback.preserve_node_meta():
                return _Part(part).run(*operands)

        return run


class _Part(fx.Interpreter):
    """Runs a graph of control flow; ``t.data``, which export does not record, is ``t.detach()``."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is _DATA_IN_BODIES:
            target = torch.Tensor.detach
        return super().call_function(target, args, kwargs)
