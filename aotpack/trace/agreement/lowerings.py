"""Compares registered lowerings with the operators they replace, before they are used.

First with symbolic sizes: types and shapes must equal the operator's for all admitted sizes. Then
with the example inputs: values must agree to half of their type's digits, which separates a wrong
lowering from a different rounding order.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.trace.agreement.values import difference, shown
from aotpack.trace.diagnostics.asked.branches import Branches
from aotpack.trace.operators.control_flow.control import CONTROL, Turns, as_part, run_control
from aotpack.trace.operators.registered import RegisteredLowerings, registered, run_registered
from aotpack.trace.source import source_of
from aotpack.trace.weights import weight_tensor


def check_lowerings(program: ExportedProgram, example: Sequence[Any] | None, name: str) -> None:
    """Refuse registered lowerings that compute something else.

    ``example`` are all leaves of the inputs; None where operators cannot run on this machine.
    """
    parts = [one for one in program.graph_module.modules() if isinstance(one, fx.GraphModule)]
    nodes = [node for part in parts for node in part.graph.nodes if registered(node.target)]
    for node in nodes:
        with torch.no_grad():
            complaint = _symbolic_complaint(node)
        if complaint:
            raise TraceError(_refusal(name, node, complaint))
    if nodes and example is not None:
        user = iter(example)
        flat = [
            weight_tensor(program, spec.target) if spec.target else next(user)
            for spec in program.graph_signature.input_specs
        ]
        with torch.no_grad():
            copies = pytree.tree_map_only(torch.Tensor, torch.clone, flat)
            _Comparison(program.graph_module, name).run(*copies)


class _Comparison(fx.Interpreter):
    """Runs the program, and at each registered operator also its function, on copies."""

    def __init__(self, module: fx.GraphModule, name: str) -> None:
        super().__init__(module)
        self.name = name

    def run_node(self, n: fx.Node) -> Any:
        if n.target in CONTROL:
            args, _ = self.fetch_args_kwargs_from_env(n)
            return run_control(n.target, pytree.tree_map(self._part, args), Turns())
        if not registered(n.target):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        theirs = copy.deepcopy((args, kwargs))  # what is one tensor, or views of one, stays so
        try:
            result = super().run_node(n)
        except Exception as error:
            raise TraceError(
                f"running {self.name} on the example inputs: {n.target} failed: {error}"
            ) from error
        with RegisteredLowerings():
            answer = _answer(n, *theirs)
        wanted, found = ((result, args, kwargs), (answer, *theirs))
        complaint = answer if isinstance(answer, str) else _departure(wanted, found)
        if complaint:
            raise TraceError(_refusal(self.name, n, complaint))
        return result

    def _part(self, value: Any) -> Any:
        """A graph as a function that compares too; other values unchanged."""
        if not isinstance(value, fx.GraphModule):
            return value
        return as_part(_Comparison(value, self.name))


def _answer(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function's result, or its error as text."""
    try:
        return run_registered(node.target, args, kwargs)  # type: ignore[arg-type]
    except Exception as error:  # any error of the user's function is shown to the user
        return f"the lowering fails: {type(error).__name__}: {str(error).strip().splitlines()[0]}"


def _symbolic_complaint(node: fx.Node) -> str | None:
    """A mismatch of the function's types and symbolic shapes, if any."""

    def value(arg: Any) -> Any:
        return arg.meta["val"] if isinstance(arg, fx.Node) else arg

    args, kwargs = fx.map_arg((node.args, node.kwargs), value)
    fakes = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor)]
    if not fakes:
        return None
    mode = fakes[0].fake_mode
    guards = mode.shape_env.guards if mode.shape_env is not None else []
    before = len(guards)
    with mode, RegisteredLowerings(), Branches() as branches:
        answer = _answer(node, args, kwargs)
    own = any(_is_of_1(one.condition) for one in branches.found.values())
    found = [guard.expr for guard in guards[before:]]
    asked = "; ".join(str(one) for one in found if own or not _is_of_1(one))
    del guards[before:]
    if isinstance(answer, str):
        return answer
    if asked:
        return f"the lowering asks for more than the model's sizes promise: {asked}"
    return _mismatch(node.meta["val"], answer)


def _is_of_1(condition: Any) -> bool:
    """True for a comparison with 1, which torch asks for too: how does a view lie in memory?"""
    return getattr(condition, "is_Relational", False) and 1 in condition.args


def _mismatch(wanted: Any, found: Any) -> str | None:
    """A difference of results in number, element type or shape, if any."""
    left, right = (pytree.tree_leaves(value) for value in (wanted, found))
    if len(left) != len(right):
        return f"the lowering returns {len(right)} results, the operator {len(left)}"
    for number, (a, b) in enumerate(zip(left, right, strict=True)):
        if isinstance(a, torch.Tensor) and not _is_like(a, b):
            return f"result {number} of the lowering is {shown(b)}, the operator's {shown(a)}"
    return None


def _is_like(a: torch.Tensor, b: Any) -> bool:
    if not isinstance(b, torch.Tensor) or a.dtype is not b.dtype or a.dim() != b.dim():
        return False
    return all(statically_known_true(x == y) for x, y in zip(a.shape, b.shape, strict=True))


def _departure(wanted: Any, found: Any) -> str | None:
    """A difference of the values of results, or of changed arguments, if any."""
    mismatch = _mismatch(wanted[0], found[0])
    if mismatch:
        return mismatch
    for what, left, right in (
        ("its results", wanted[0], found[0]),
        ("the arguments it changes", wanted[1:], found[1:]),
    ):
        for a, b in zip(pytree.tree_leaves(left), pytree.tree_leaves(right), strict=True):
            complaint = difference(a, b) if isinstance(a, torch.Tensor) else None
            if complaint:
                return f"on the example inputs one of {what} {complaint}"
    return None


def _refusal(name: str, node: fx.Node, complaint: str) -> str:
    source = source_of(node)
    place = f" ({source})" if source else ""
    return f"lowering {node.target} of {name} as registered{place}: {complaint}"
