"""Interpreters of the exported graph: as it is, and with float64 in place of every other float.

The reference widens floats when they are used, so that a large model's weights are never all in
float64.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import getitem
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from aotpack.errors import AotpackError, TraceError
from aotpack.ir.foreign import TritonKernel
from aotpack.ir.rounding import PROMOTING, is_choice, is_decision, name_of, rounds_operand
from aotpack.trace.changes import CHANGES
from aotpack.trace.complex_pairs import real_tensor
from aotpack.trace.conversions import is_rounding
from aotpack.trace.golden.cost import cost_of
from aotpack.trace.golden.meanings import MEANINGS
from aotpack.trace.golden.pieces import widened_in_pieces
from aotpack.trace.graph import is_returned
from aotpack.trace.operators.control_flow.control import COND, CONTROL, Turns, as_part, run_control
from aotpack.trace.source import users_source_of
from aotpack.trace.strides import as_recorded
from aotpack.trace.triton.triton_kernels import Grid, Launch, TritonPort, is_launch, read_launch
from aotpack.trace.weights import dtype_of, weight_tensor

_ASSERTIONS = re.compile(r"aten\._(functional_)?assert_\w+(\.\w+)?")
_BITCAST = torch.ops.aten.view.dtype
_SMALL = 5e7  # operations of an iteration, and bytes that it holds
_REPLACING = torch.ops.aten.nan_to_num.default

Changed: TypeAlias = dict[str, torch.Tensor]
Run: TypeAlias = Callable[[TritonKernel, Grid], Changed]


def results_of(
    program: ExportedProgram, example: Sequence[Any], interpreter: "Eager"
) -> list[torch.Tensor]:
    """The graph's results, then the new values of the tensors it changes."""
    user = iter(example)
    flat = [
        next(user)
        if spec.kind is InputKind.USER_INPUT
        else weight_tensor(program, spec.target or "")
        for spec in program.graph_signature.input_specs
    ]
    outputs = interpreter.run(*flat)
    results = (interpreter.value(value) for value in in_order_of_results(program, outputs))
    return [real_tensor(one) if isinstance(one, torch.Tensor) else one for one in results]


def in_order_of_results(program: ExportedProgram, outputs: Sequence[Any]) -> list[Any]:
    """Of what the graph returns: the model's results, then the new values of what it changes."""
    pairs = list(zip(outputs, program.graph_signature.output_specs, strict=True))
    returned = [value for value, spec in pairs if is_returned(spec)]
    return [*returned, *(value for value, spec in pairs if spec.kind in CHANGES)]


class Eager(fx.Interpreter):
    """Runs each operator as it is, and launches of Triton kernels on host memory."""

    def __init__(self, module: fx.GraphModule, triton: TritonPort | None, turns: Turns) -> None:
        super().__init__(module)
        self.turns = turns
        self.extra_traceback = False  # our errors name the operator
        self.triton = triton

    def value(self, result: torch.Tensor) -> torch.Tensor:
        """The recorded form of a result."""
        return result

    def run_node(self, n: fx.Node) -> Any:
        return as_recorded(self.computed(n), n.meta.get("val"))

    def computed(self, n: fx.Node) -> Any:
        """The value of a node, in any strides."""
        if _is_assertion(n):
            return None
        if n.target in CONTROL:
            return self.controlled(n)
        return self.launch(n, widened=False) if is_launch(n) else super().run_node(n)

    def controlled(self, n: fx.Node) -> Any:
        """The value of control flow; parts run as the whole does."""
        args, _ = self.fetch_args_kwargs_from_env(n)
        if n.target is COND:
            return run_control(n.target, pytree.tree_map(self._part, args), self.turns)
        args = pytree.tree_map(self.carried, args)  # once, not in each iteration
        with _threads_for(args):
            return run_control(n.target, pytree.tree_map(self._part, args), self.turns)

    def carried(self, value: Any) -> Any:
        """The form in which a loop takes a value."""
        return value

    def _part(self, value: Any) -> Any:
        """A graph as a function over this interpreter's values; other values unchanged."""
        return as_part(self.inner(value)) if isinstance(value, fx.GraphModule) else value

    def inner(self, module: fx.GraphModule) -> "Eager":
        """The interpreter of a part."""
        return Eager(module, self.triton, self.turns)

    def launch(self, node: fx.Node, *, widened: bool) -> Changed:
        """The tensors a launch changes, by parameter, in their types or in float64."""
        assert self.triton is not None
        port, launch = self.triton, read_launch(node)

        def found(value: Any) -> Any:
            if not isinstance(value, fx.Node):
                return value
            own = value.meta["val"]
            if not isinstance(own, torch.Tensor):
                return self.env[value]
            tensor = _widen(self.env[value]) if widened else self.env[value].to(own.dtype)
            return tensor.contiguous().clone()

        def run(kernel: TritonKernel, grid: Grid) -> Changed:
            passed = dict(zip(kernel.passed, map(found, launch.passed), strict=True))
            x, y, z = map(found, grid)
            if 0 not in (x, y, z):
                port.run(kernel, (x, y, z), [_argument(v) for v in passed.values()])
            return {parameter: passed[parameter] for parameter in node.meta["val"]}

        results = run(launch.kernel, launch.grid)
        self.configured(launch, results, run)
        return results

    def configured(self, launch: Launch, results: Changed, run: Run) -> None:
        """Runs other configurations of a launch, where they are to be compared."""


def _is_assertion(n: fx.Node) -> bool:
    """True for what the exported program has checked; torch asserts more where it decomposes."""
    return bool(_ASSERTIONS.fullmatch(str(n.target)))


def _argument(value: Any) -> tuple[str, int]:
    """A tensor as its element type and address, an integer as it is."""
    if isinstance(value, torch.Tensor):
        return str(dtype_of(value.dtype, "an argument")), value.data_ptr()
    return "", int(value)


class Reference(Eager):
    """Runs each operator with float64 in place of every other float.

    Results are float64, whatever their type; only these are numbers of their own type:

    - what the model's own conversions to shorter floats yield, if the type lacks values of the
      operand's (``is_rounding``): a widening changes nothing, and the conversion back to 16 bits at
      the end of a decomposition is the rounding of an operator's result;
    - the operands of decisions, such as comparisons and floor (``ir/rounding.py``).
    """

    def value(self, result: torch.Tensor) -> torch.Tensor:
        widened: torch.Tensor = _widen(result)
        return widened

    def carried(self, value: Any) -> Any:
        """See Eager.carried."""
        return _widen(value)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        with _double_default():
            return super().run(*args, **kwargs)

    def computed(self, n: fx.Node) -> Any:
        """See Eager.computed."""
        if is_launch(n):
            return self._widened_launch(n)
        if n.op != "call_function":
            return super().computed(n)
        if _is_assertion(n):
            return None
        if n.target in CONTROL:
            return self.controlled(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is _BITCAST:
            return self._in_own_types(n)
        if not decides(n):
            result = self._wide_result(n, promoted(n, args), kwargs)
            return _through(result, n.meta["val"].dtype) if is_rounding(n) else result
        own, named = fx.map_arg((n.args, n.kwargs), self._in_own_type)
        decided = self._wide_result(n, promoted(n, own), named)
        return self._chosen(n, decided) if is_choice(str(n.target)) else decided

    def _wide_result(self, n: fx.Node, args: Any, kwargs: Any) -> Any:
        """The widened result for widened arguments."""
        large = widened_in_pieces(n, args, kwargs)
        if large is not None:
            return large
        args, kwargs = pytree.tree_map(_widen, (args, kwargs))
        if n.target is _REPLACING and n.meta["val"].is_floating_point():
            return _replaced(n.meta["val"].dtype, *args, **kwargs)
        if n.target in MEANINGS:
            return pytree.tree_map(_widen, MEANINGS[n.target](*args, **kwargs))
        try:
            return pytree.tree_map(_widen, self.call_function(n.target, args, kwargs))
        except Exception:
            return self._in_own_types(n)

    def _in_own_type(self, operand: fx.Node) -> Any:
        """The value of an operand; floats rounded to their type."""
        value, known = self.env[operand], operand.meta.get("val")
        if not isinstance(known, torch.Tensor) or not known.is_floating_point():
            return value
        return _through(value, known.dtype)

    def _chosen(self, n: fx.Node, decided: Any) -> Any:
        """The positions that were decided, and the elements there without their rounding."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        wide = self._wide_result(n, args, kwargs)
        parts = zip(pytree.tree_leaves(wide), pytree.tree_leaves(decided), strict=True)
        return [one if one.is_floating_point() else other for one, other in parts]

    def _in_own_types(self, n: fx.Node) -> Any:
        """The widened result of an operator that needs the bits or rejects float64."""

        def own(argument: fx.Node) -> Any:
            value, known = self.env[argument], argument.meta.get("val")
            return value.to(known.dtype) if isinstance(known, torch.Tensor) else value

        args, kwargs = fx.map_arg((n.args, n.kwargs), own)
        try:
            result = self.call_function(n.target, args, kwargs)
        except Exception as error:
            place = users_source_of(n)
            raise TraceError(
                f"running {n.target} on the example inputs: {type(error).__name__}: {error}"
                + (f"\n  at {place}" if place else "")
            ) from error
        return pytree.tree_map(_widen, result)

    def inner(self, module: fx.GraphModule) -> "Reference":
        return Reference(module, self.triton, self.turns)

    def _widened_launch(self, node: fx.Node) -> Any:
        """Launch in float64 if the kernel allows it, else in its types."""
        try:
            return self.launch(node, widened=True)
        except AotpackError:
            return pytree.tree_map(_widen, self.launch(node, widened=False))


def decides(n: fx.Node) -> bool:
    """True for a decision (``ir/rounding.py``)."""
    is_used = any(user.target is getitem and user.args[1] == 1 for user in n.users)
    return is_decision(str(n.target), n.args, has_positions=is_used)


def promoted(n: fx.Node, values: Sequence[Any]) -> Sequence[Any]:
    """The positional arguments as an operator on 16-bit floats converts them: rounded to that."""
    if name_of(str(n.target)) not in PROMOTING:
        return values
    known = [one.meta.get("val") if isinstance(one, fx.Node) else one for one in n.args]
    dtype = _promoted_type([one for one in known if _is_operand(one)])
    if dtype not in (torch.float16, torch.bfloat16):
        return values
    return [
        _rounded(value, dtype) if _is_converted(n, one, dtype) else value
        for value, one in zip(values, known, strict=True)
    ]


def _is_converted(n: fx.Node, known: Any, dtype: torch.dtype) -> bool:
    """True for an operand of another type, by what is known of it."""
    if not isinstance(known, torch.Tensor):
        return isinstance(known, float)
    rounds = rounds_operand(str(n.target), has_dimensions=known.dim() > 0)
    return rounds and _is_operand(known) and known.dtype is not dtype


def _promoted_type(operands: Sequence[Any]) -> torch.dtype | None:
    """The type of two operands together."""
    if len(operands) != 2 or not any(isinstance(one, torch.Tensor) for one in operands):
        return None
    return torch.result_type(*operands)


def _is_operand(value: Any) -> bool:
    """True for a number and a tensor of numbers."""
    if isinstance(value, torch.Tensor):
        return value.dtype is not torch.bool
    return isinstance(value, float)


def _rounded(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return _through(value.double(), dtype)
    return float(torch.tensor(value, dtype=torch.float64).to(dtype))


def _replaced(
    dtype: torch.dtype, x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None
) -> Any:
    """``nan_to_num``, which replaces infinities by the largest numbers of the operand's type."""
    largest = torch.finfo(dtype).max
    high, low = (largest if posinf is None else posinf, -largest if neginf is None else neginf)
    return x.nan_to_num(nan, high, low)


def _through(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The numbers rounded to a type."""
    return value.to(dtype).to(value.dtype)


def _widen(value: Any) -> Any:
    """float64 (complex128) for a floating tensor or dtype; other values unchanged."""
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            return value.to(torch.complex128)
        return value.double() if value.is_floating_point() else value
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


@contextmanager
def _threads_for(args: Sequence[Any]) -> Iterator[None]:
    """Inside the block, one thread if a loop's iterations are small: others wait more than work."""
    parts = [one for one in pytree.tree_leaves(args) if isinstance(one, fx.GraphModule)]
    costs = [cost_of(part, wide=True) for part in parts]
    is_small = all(max(one.operations, one.held) < _SMALL for one in costs)
    before = torch.get_num_threads()
    torch.set_num_threads(1 if is_small else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _double_default() -> Iterator[None]:
    """Inside the block, integers are promoted to float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
