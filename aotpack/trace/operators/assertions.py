"""Assertions on data in forward become flags that a run sets.

An assertion on a tensor, or on a number read from one, becomes an int32 flag of the model: 0 until
the condition fails, 1 from then on. For later stages it is a tensor that a run changes, like a
buffer of the user's, so that dead-code elimination keeps it. Conditions on sizes are guards.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import fx

from aotpack.errors import UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.stages import Assertion, GraphNode, Ref, Source, TensorSpec
from aotpack.trace.source import users_source_of

OF_TENSORS = ("aten._assert_async.msg", "aten._assert_async.default")
OF_NUMBERS = ("aten._assert_scalar.default",)
_NUMBERS_FROM_DATA = ("aten._local_scalar_dense.default", "aten.item.default")
_GENERATED = "Runtime assertion failed for expression"


@dataclass(frozen=True, slots=True)
class Asserted:
    """A condition, a 0-d bool, and the message for its failure."""

    condition: Ref
    message: str
    op: str
    source: Source | None


def is_assertion(node: fx.Node) -> bool:
    """True for a call that checks a condition on a tensor or a number."""
    return str(node.target) in (*OF_TENSORS, *OF_NUMBERS)


def reads_number(node: fx.Node) -> bool:
    """True for a call that reads a tensor's only element as a number."""
    return str(node.target) in _NUMBERS_FROM_DATA


def without_repeats(nodes: Sequence[fx.Node]) -> list[fx.Node]:
    """Remove assertions that torch generated several times with the same message."""
    kept: list[fx.Node] = []
    generated: set[str] = set()
    for node in nodes:
        message = message_of(node)
        if message not in generated:
            kept.append(node)
        if message.startswith(_GENERATED):
            generated.add(message)
    return kept


def message_of(node: fx.Node) -> str:
    """The user's message, or torch's."""
    return str(node.args[1]) if len(node.args) > 1 else "Expected Tensor to be non-zero"


def condition_of(node: fx.Node, given: Ref, name: str) -> tuple[GraphNode, Asserted]:
    """The condition of an assertion as a 0-d bool, from one element of any type."""
    source = nearest_source(node)
    spec = TensorSpec(name, DType.BOOL, ())
    asked = GraphNode(name, "operator.item", (given,), (), (spec,), source)
    return asked, Asserted(Ref(name), message_of(node), str(node.target), source)


def nearest_source(node: fx.Node) -> Source | None:
    """The user's line; for an assertion that torch generated, that of its number."""
    waiting, seen = deque([node]), {node}
    while waiting:
        found = waiting.popleft()
        source = users_source_of(found)
        if source is not None:
            return source
        new = [one for one in found.all_input_nodes if one not in seen]
        seen.update(new)
        waiting.extend(new)
    return None


def true_condition(name: str) -> GraphNode:
    """The constant True."""
    spec = TensorSpec(name, DType.BOOL, ())
    return GraphNode(name, "aten.full.default", ((), True), (), (spec,), None)


def conjunction(name: str, first: Ref, second: Ref) -> GraphNode:
    """The conjunction of two conditions."""
    spec = TensorSpec(name, DType.BOOL, ())
    return GraphNode(name, "aten.logical_and.default", (first, second), (), (spec,), None)


def flags_of(
    found: Sequence[Asserted], unused: Callable[[str], str]
) -> tuple[tuple[Assertion, ...], tuple[GraphNode, ...], tuple[tuple[str, Ref], ...]]:
    """The assertions, the nodes that compute their flags, and the updates of the flags."""
    assertions, nodes, updates = [], [], []
    for number, one in enumerate(found):
        word, after = unused(f"assertion{number}"), unused(f"asserted{number}")
        spec = TensorSpec(after, DType.INT32, ())
        nodes.append(
            GraphNode(after, "assertion.word", (Ref(word), one.condition), (), (spec,), one.source)
        )
        place = f"{one.op} at {one.source}" if one.source else one.op
        assertions.append(Assertion(word, one.message, place))
        updates.append((word, Ref(after)))
    return tuple(assertions), tuple(nodes), tuple(updates)


def refuse_in_test(found: Sequence[Asserted]) -> None:
    """Refuse assertions in the test of a loop, which has no other results."""
    if found:
        raise UnsupportedError(
            f"its test asserts {found[0].message!r}; assert it in the body, or on the result"
        )
