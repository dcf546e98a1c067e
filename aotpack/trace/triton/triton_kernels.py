"""Launches of Triton kernels in an exported graph: the kernel's text, its arguments, its grid.

torch represents a launch as an operator on tensors, with the kernel in a side table. An autotuned
kernel comes with the configurations that its pruning has left, and a grid for each; each is a form
of the launch. restore_value and reset_to_zero have no effect on a call, as in Triton: they are for
measurements, which put back what a kernel changes in place.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import fx
from torch._higher_order_ops.triton_kernel_wrap import get_mutated_tensors, kernel_side_table
from torch._library.custom_ops import OPDEFS
from torch._ops import OpOverload
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.export import ExportedProgram

from aotpack.errors import UnsupportedError, a_type
from aotpack.ir.foreign import TritonKernel
from aotpack.trace.triton.configurations import OPTIONS, Config, configurations
from aotpack.trace.triton.triton_source import TritonSource

LAUNCH = "triton_kernel_wrapper"
_INT32 = 2**31


Grid: TypeAlias = tuple[Any, Any, Any]


class TritonPort(Protocol):
    """The port to Triton."""

    def analysis(self) -> AbstractContextManager[None]:
        """Inside the block, kernels can be compiled far enough to find the tensors they write."""

    def run(
        self,
        kernel: TritonKernel,
        grid: tuple[int, int, int],
        arguments: Sequence[tuple[str, int]],
    ) -> None:
        """Launch on host memory; arguments are (element type, address) or ("", integer)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of the graph; ``passed`` are nodes or numbers.

    ``others`` are further configurations of its kernel, each with its grid.
    """

    kernel: TritonKernel
    passed: tuple[Any, ...]
    grid: Grid
    others: tuple[tuple[TritonKernel, Grid], ...] = ()

    def position(self, parameter: str) -> int:
        """The position of a parameter in ``passed``."""
        return self.kernel.passed.index(parameter)


def is_launch(node: fx.Node) -> bool:
    """True for a launch of a Triton kernel."""
    return node.op == "call_function" and f"{LAUNCH}_functional" in str(node.target)


def launches_kernels(program: ExportedProgram) -> bool:
    """True for a program, not yet decomposed, whose operators launch Triton kernels."""
    return any(
        LAUNCH in str(node.target) or implementation(node.target) is not None
        for module in program.graph_module.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes
    )


def implementation(target: Any) -> Callable[..., Any] | None:
    """The function behind an operator of torch.library.triton_op, which launches its kernels."""
    if not isinstance(target, OpOverload):
        return None
    defined = OPDEFS.get(target._schema.name)
    if defined is None or defined._init_fn.__module__ != "torch._library.triton":
        return None
    found: Callable[..., Any] | None = inspect.getclosurevars(defined._init_fn).nonlocals.get("fn")
    return found


def check_launch(given: Mapping[str, Any]) -> None:
    """Refuse a launch that a graph cannot represent completely."""
    kernel = kernel_side_table.get_kernel(given["kernel_idx"])
    constants = kernel_side_table.get_constant_args(given["constant_args_idx"])
    function, _ = configurations(kernel)
    name = function.fn.__name__
    described = any(hasattr(value, "block_shape") for value in constants.values())
    if given["tma_descriptor_metadata"] or described:
        raise UnsupportedError(
            f"the Triton kernel {name} is passed tensor descriptors made on the host; make them in "
            "the kernel (tl.make_tensor_descriptor)"
        )
    keys = ("kernel_idx", "constant_args_idx", "tma_descriptor_metadata")
    tensors = {name: _plain(value) for name, value in given["kwargs"].items()}
    if not get_mutated_tensors(**{key: given[key] for key in keys}, kwargs=tensors):
        raise UnsupportedError(
            f"the Triton kernel {name} stores into none of its arguments, as far as its text "
            "tells: its launch would be lost"
        )


def _plain(value: Any) -> Any:
    """A tensor without torch's functionalisation wrapper."""
    if isinstance(value, FunctionalTensor):
        return torch._from_functional_tensor(value.elem)
    return value


def read_launch(node: fx.Node) -> Launch:
    """The launch at a node; UnsupportedError names what is not accepted."""
    given = node.kwargs
    kernel = kernel_side_table.get_kernel(given["kernel_idx"])  # type: ignore[arg-type]
    constants = kernel_side_table.get_constant_args(given["constant_args_idx"])  # type: ignore[arg-type]
    function, configs = configurations(kernel)
    tensors, changed, grids = given["kwargs"], given["tensors_to_clone"], given["grid"]
    assert isinstance(tensors, Mapping) and isinstance(changed, (list, tuple))
    values = {**_defaults(function), **constants, **tensors}
    _check_no_aliases(values, changed)
    (first, own), *others = (
        (_configured(function, values, config), _sides(grid))
        for config, grid in zip(configs, grids, strict=True)  # type: ignore[arg-type]
        if not config.unknown
    )
    if any(other.passed != first.passed for other, _ in others):
        raise UnsupportedError(
            f"configurations of its kernel {first.function} give values to different parameters; "
            "name the same ones in each"
        )
    return Launch(first, tuple(values[name] for name in first.passed), own, tuple(others))


def _sides(grid: Sequence[Any]) -> Grid:
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z


def _configured(function: Any, values: Mapping[str, Any], config: Config) -> TritonKernel:
    """The kernel with the constants of one configuration."""
    given = {**values, **config.values}
    found = {name: given[name] for name in function.arg_names if name in given}
    missing = [name for name in function.arg_names if name not in found]
    if missing:
        raise UnsupportedError(f"its kernel {function.fn.__name__} is not passed {missing[0]}")
    source, parameters = TritonSource(), {p.name: p for p in function.params}
    name = source.add(function)
    texts = tuple((n, _text(parameters[n], v, source)) for n, v in found.items())
    warps, stages = (int(given.get(option, default)) for option, default in OPTIONS)
    return TritonKernel(name, source.with_entry(name, texts), texts, warps, stages)


def _defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function.fn).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def _check_no_aliases(values: Mapping[str, Any], changed: Sequence[Any]) -> None:
    """Refuse a launch that passes a changed tensor twice."""
    for name in changed:
        for other, value in values.items():
            if other != name and isinstance(value, fx.Node) and value is values[name]:
                raise UnsupportedError(
                    f"its kernel changes {name}, which is passed as {other} too; give it a copy"
                )


def _text(parameter: Any, value: Any, source: TritonSource) -> str | None:
    """The text of a constant argument; None for tensors and symbolic sizes."""
    name: str = parameter.name
    symbolic = isinstance(value, (fx.Node, torch.SymInt))
    if parameter.is_constexpr or value is None:
        text = None if symbolic else source.literal(value)
        if text is None:
            what = "a size that is not fixed" if symbolic else a_type(value)
            raise UnsupportedError(f"its kernel's constant {name} is {what}")
        return text
    if symbolic:
        return None
    if isinstance(value, bool):
        return f"tl.full((), {value}, tl.int1)"
    if isinstance(value, int):
        width = 32 if -_INT32 <= value < _INT32 else 64
        is_constant = value == 1 and not parameter.do_not_specialize
        return "1" if is_constant else f"tl.full((), {value}, tl.int{width})"
    if isinstance(value, float):
        return f"tl.full((), {source.literal(value)}, tl.float32)"
    raise UnsupportedError(f"its kernel's argument {name} is {a_type(value)}")
