"""Operator calls of an FX graph -> ``GraphNode``s; all unsupported calls are listed at once."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from aotpack.errors import UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Configuration
from aotpack.ir.rounding import CONVERSIONS
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.stages import GraphNode, Ref, TensorSpec
from aotpack.trace.arguments import is_number, number_spec
from aotpack.trace.complex_pairs import PLACEMENT, UNCHANGED, touches_complex
from aotpack.trace.conversions import is_rounding
from aotpack.trace.operators.assertions import (
    Asserted,
    condition_of,
    is_assertion,
    reads_number,
    without_repeats,
)
from aotpack.trace.operators.complex_calls import ComplexReader
from aotpack.trace.operators.control_flow.control import CONTROL, NUMBER_OPERATORS, is_part
from aotpack.trace.operators.counted.bindings import Counted
from aotpack.trace.operators.counted.demand import Demand
from aotpack.trace.operators.counted.demands import demands_of
from aotpack.trace.operators.counted.pinned import pinned
from aotpack.trace.operators.known_positions import check_known_positions
from aotpack.trace.operators.position_rules import Inside, Steps, check
from aotpack.trace.operators.positions import arguments_of, placeholders_behind, rules_of
from aotpack.trace.operators.strided import BY_STRIDES
from aotpack.trace.sizes import Sizes
from aotpack.trace.source import source_of
from aotpack.trace.triton.triton_kernels import is_launch, read_launch

_SAME_VALUE = {
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.lift_fresh_copy.default",
    "aten.positive.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
}
_OF_ONE_TYPE = CONVERSIONS - {"aten.copy.default", "aten.copy_.default"}
_DROPOUTS = {"aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default"}


_CONTROL_FLOW = "it takes functions; of such operators cond, map, scan and while_loop are accepted"
_HIGHER_ORDER = {  # why operators on functions or text are not accepted
    "inline_asm_elementwise": "assembly is for one kind of GPU; torch's operators are accepted",
}


class OperatorReader(ComplexReader):
    """Reads the calls that results depend on; ``refs`` are the known inputs and weights.

    ``refusal`` says why an operator has no lowering: beside other problems, such calls are listed.
    """

    def __init__(
        self,
        model: str,
        sizes: Sizes,
        refs: Mapping[fx.Node, Ref],
        counted: Counted,
        *,
        check_indices: bool = False,
        refusal: Callable[[str], str | None] | None = None,
    ) -> None:
        super().__init__(sizes, refs)
        self._counted = counted
        self.counting: set[fx.Node] = set()  # the live calls that yield sizes
        self._check_indices = check_indices
        self.unchecked: dict[fx.Node, None] = {}  # what has positions, without ``check_indices``
        self.asserted = []
        self._model = model
        self._refusal = refusal
        self._problems: list[str] = []
        self._is_refused = False
        self._main: fx.Graph | None = None  # not that of a branch or loop

    def read(self, results: Sequence[fx.Node]) -> tuple[GraphNode, ...]:
        """The live calls in order; ``results`` is not empty."""
        self._main = results[0].graph
        nodes = self._read_all(self._main, results)
        if self._is_refused:
            raise UnsupportedError(
                f"tracing {self._model}: these cannot be packaged:\n  "
                + "\n  ".join(dict.fromkeys(self._problems))
                + "\nWrite these parts of the model another way, or keep them outside of it."
            )
        return nodes

    def _read_all(self, graph: fx.Graph, results: Sequence[fx.Node]) -> tuple[GraphNode, ...]:
        known: dict[fx.Node, bool] = {}
        asked = without_repeats(
            [n for n in graph.nodes if is_assertion(n) and self._is_data(n.args[0], known)]
        )
        held = [node for node in self._counted.pinned if node.graph is graph]
        live = self._live([*results, *asked, *held], known)
        self.counting |= self._counted.bindings.keys() & live
        return tuple(made for node in graph.nodes if node in live for made in self._read(node))

    def _read(self, node: fx.Node) -> tuple[GraphNode, ...]:
        if node.op == "placeholder" or is_part(node):
            return ()
        try:
            made = self._call(node)
        except UnsupportedError as error:
            self._is_refused = True
            self._add_problem(node, str(error))
            self._refs[node] = Ref(node.name)
            return ()
        for call in made:
            reason = self._refusal(call.op) if self._refusal and call.kernel is None else None
            if reason is not None:
                self._add_problem(node, reason)
        return made

    def _add_problem(self, node: fx.Node, reason: str) -> None:
        source = source_of(node)
        place = f"  ({source})" if source else ""
        self._problems.append(f"{_operator(node)}: {self._sizes.named(reason)}{place}")

    def _call(self, node: fx.Node) -> tuple[GraphNode, ...]:
        if node.op != "call_function":
            raise UnsupportedError("a part of the model that is neither an operator nor an input")
        if node.target is operator.getitem:
            whole, index = node.args
            assert isinstance(whole, fx.Node)
            if isinstance(index, str):  # a tensor that a launch changed, by parameter
                index = list(whole.meta["val"]).index(index)
            assert isinstance(index, int)
            if whole in self._parts:
                self._refs[node] = self._parts[whole][index]
                return ()
            self._refs[node] = Ref(self._refs[whole].name, index)
            return ()
        if is_launch(node):
            return (self._launch(node),)
        same = _same_value(node)
        if same is not None:
            self._refs[node] = self._refs[same]
            return ()
        if touches_complex(node):
            return self._complex_call(node)
        if is_assertion(node):
            return (self._assertion(node),)
        if node.target in CONTROL:
            return self._control(node)
        return (*self._checks(node), self._operator_call(node))

    def _operator_call(self, node: fx.Node) -> GraphNode:
        if is_number(node):
            return self._number(node)
        schema = getattr(node.target, "_schema", None)
        if "auto_functionalized" in str(node.target):
            raise UnsupportedError(
                "it changes its arguments in place and has no lowering; say what it computes with "
                "aotpack.register_lowering, or write it with Triton kernels "
                "(torch.library.triton_op)"
            )
        if schema is None:
            raise UnsupportedError(_HIGHER_ORDER.get(_operator(node), _CONTROL_FLOW))
        if schema.is_mutable:
            raise UnsupportedError("it changes its argument in place")
        if str(node.target) in BY_STRIDES and not _is_row_major(node.args[0]):
            raise UnsupportedError("strides are accepted in a contiguous tensor that is no view")
        name = self.unused(node.name)
        self._refs[node] = Ref(name)
        kwargs = {key: value for key, value in node.kwargs.items() if key not in PLACEMENT}
        return GraphNode(
            name=name,
            op=str(node.target),
            args=tuple(map(self._arg, node.args)),
            kwargs=tuple((key, self._arg(value)) for key, value in kwargs.items()),
            results=self._results(name, node.meta["val"]),
            source=source_of(node),
            rounds=is_rounding(node),
            counts=self._counts(node),
        )

    def _launch(self, node: fx.Node) -> GraphNode:
        launch = read_launch(node)
        name = self.unused(node.name)
        self._refs[node] = Ref(name)
        for passed in launch.passed:
            value = passed.meta["val"] if isinstance(passed, fx.Node) else passed
            if isinstance(value, torch.Tensor) and not value.is_contiguous():
                raise UnsupportedError("its kernel takes a tensor that is not contiguous")
        values = node.meta["val"]
        return GraphNode(
            name=name,
            op=f"triton.{launch.kernel.function}",
            args=tuple(map(self._passed, launch.passed)),
            kwargs=(),
            results=self._results(name, tuple(values.values())),
            source=source_of(node),
            kernel=launch.kernel,
            grid=tuple(map(self._passed, launch.grid)),
            others=tuple(
                Configuration(kernel, (self._passed(x), self._passed(y), self._passed(z)))
                for kernel, (x, y, z) in launch.others
            ),
            changes=tuple(launch.position(parameter) for parameter in values),
        )

    def _passed(self, value: Any) -> Any:
        """A tensor's reference, or a number that may be symbolic."""
        arg = self._arg(value)
        return Int.of(arg) if isinstance(arg, int) else arg

    # --- assertions, and numbers that are data ---------------------------------------------

    def _checks(self, node: fx.Node) -> tuple[GraphNode, ...]:
        """The index checks of a call, with ``check_indices``; sizes of inputs need none."""
        steps = Steps(node, self.unused)
        for rule in rules_of(node):
            is_counted = any(self._counted.behind(rule.tensor))
            if isinstance(rule, Inside) and node.graph is self._main and not is_counted:
                check_known_positions(rule, self._sizes.convert)
            if not self._check_indices:
                self.unchecked |= dict.fromkeys(placeholders_behind(rule))
                continue
            if not is_counted and not self._is_data(rule.tensor, {}):
                continue
            at = self._arg(rule.tensor)
            at = at if isinstance(at, Ref) else steps.constant(at)
            (spec,) = self._results(at.name, rule.tensor.meta["val"])
            self.asserted.append(check(rule, node, at, spec, self._sizes.convert, steps))
        for demand in self._demands_in_body(node):
            holds = steps.add("ge.Scalar", steps.constant(demand.holds), 1)
            message = f"sizes must have {demand.text}"
            self.asserted.append(Asserted(holds, message, str(node.target), steps.source))
        return tuple(steps.made)

    def _demands_in_body(self, node: fx.Node) -> list[Demand]:
        """What a call in a branch or loop demands of sizes, if it runs."""
        found = demands_of(node, self._sizes) if node.graph is not self._main else []
        if str(node.target) in BY_STRIDES:  # it would read before its flag is seen
            given = (node, *node.all_input_nodes)
            if not found or not any(True for one in given for _ in self._counted.behind(one)):
                return []  # of declared sizes, the build has checked it
            raise UnsupportedError(
                "inside of a branch or loop, strides have to stay inside of the tensor for all "
                f"counts, and {found[0].text} need not hold; make the view before, not inside"
            )
        return found

    def _assertion(self, node: fx.Node) -> GraphNode:
        """The condition of an assertion, as one bool."""
        given = self._arg(node.args[0])
        assert isinstance(given, Ref)
        made, found = condition_of(node, given, self.unused(node.name.lstrip("_")))
        self.asserted.append(found)
        return made

    def _counts(self, node: fx.Node) -> tuple[Var, ...]:
        if node not in self._counted.bindings and pinned(node, self._counted.bindings) is not None:
            raise UnsupportedError("a branch or loop counts elements of its own; count them before")
        return tuple(one.size for one in self._counted.bindings.get(node, ()))

    def _number(self, node: fx.Node) -> GraphNode:
        """A number read from data, as a 0-d tensor; or the reading of a size."""
        counts = self._counts(node)
        if counts:
            name = self.unused(node.name)
            spec, read = TensorSpec(name, DType.INT64, ()), self._arg(node.args[0])
            return GraphNode(
                name, "size.read", (read,), (), (spec,), source_of(node), counts=counts
            )
        op, value = NUMBER_OPERATORS.get(node.target), node.meta["val"]
        if reads_number(node):
            op = "operator.item"
        if op is None:
            accepted = ", ".join(op.removeprefix("operator.") for op in NUMBER_OPERATORS.values())
            raise UnsupportedError(f"of numbers that are data, these are computed: {accepted}")
        name = self.unused(node.name)
        self._refs[node] = Ref(name)
        args = tuple(map(self._arg, node.args))
        return GraphNode(name, op, args, (), (number_spec(name, value),), source_of(node))

    def _live(self, results: Sequence[fx.Node], known: dict[fx.Node, bool]) -> set[fx.Node]:
        """The nodes that results depend on; numbers computed from sizes are not followed."""
        live: set[fx.Node] = set()
        waiting = list(results)
        while waiting:
            node = waiting.pop()
            if node in live:
                continue
            waiting += (one for one in self._counted.behind(node) if one is not node)
            is_plain = is_number(node) and not self._is_carried(node, known)
            if is_plain and node not in self._counted.bindings:
                continue
            live.add(node)
            waiting += node.all_input_nodes
        return live

    def _is_data(self, condition: Any, known: dict[fx.Node, bool]) -> bool:
        """False for a condition on sizes alone."""
        if not isinstance(condition, fx.Node):
            return False
        return not is_number(condition) or self._is_carried(condition, known)

    def _is_carried(self, number: fx.Node, known: dict[fx.Node, bool]) -> bool:
        """True for a number from a tensor or a loop, and numbers computed from one.

        False for a size, though it may be read from a tensor; true for a float of sizes.
        """
        if self._sizes.knows(number.meta.get("val")):
            return False
        is_float = isinstance(number.meta.get("val"), torch.SymFloat)  # also one of sizes
        if is_float or number in self._refs or reads_number(number):
            return True
        if number.target is operator.getitem:
            return number.all_input_nodes[0].target in CONTROL
        if number not in known:
            given = number.all_input_nodes
            known[number] = any(is_number(n) and self._is_carried(n, known) for n in given)
        return known[number]


def _same_value(node: fx.Node) -> fx.Node | None:
    """The argument that this call returns unchanged, if any."""
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node):
        return None
    name, is_same = str(node.target), False
    if name in _OF_ONE_TYPE:
        is_same = source.meta["val"].dtype is node.meta["val"].dtype
    elif name in _DROPOUTS:
        is_same = not arguments_of(node)["train"]
    return source if is_same or name in (_SAME_VALUE | UNCHANGED) else None


def _is_row_major(argument: Any) -> bool:
    """True for a tensor that covers its storage in row-major order.

    Operators with strides address the storage, which a packaged model lays out differently.
    """
    value = argument.meta["val"]
    whole = value.untyped_storage().nbytes() == value.numel() * value.element_size()
    return bool(value.is_contiguous() and statically_known_true(whole))


def _operator(node: fx.Node) -> str:
    """The operator's name; for a functionalised one, the name of the wrapped operator."""
    if node.op != "call_function":
        return f"{node.op} {node.target}"
    if is_launch(node):
        return "a launch of a Triton kernel"
    wrapped = "auto_functionalized" in str(node.target)
    return str(node.args[0] if wrapped else node.target)
