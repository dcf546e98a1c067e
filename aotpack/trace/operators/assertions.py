"""Assertions on data in forward become conditions that a run records.

An assertion on a tensor, or on a number read from one, becomes a word of the model: an int32 that
is 0 until the condition does not hold, and stays 1 from then on. To every later stage it is a
tensor that a run changes, as a buffer of the user's is, so nothing drops it. Conditions on sizes
are guards.
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
    """A condition that must hold, a bool without dimensions, and how its failure is told."""

    condition: Ref
    message: str
    op: str
    source: Source | None


def is_assertion(node: fx.Node) -> bool:
    """True for a call that checks a condition on a tensor or a number."""
    return str(node.target) in (*OF_TENSORS, *OF_NUMBERS)


def reads_number(node: fx.Node) -> bool:
    """True for the call that makes a number of a tensor's only element."""
    return str(node.target) in _NUMBERS_FROM_DATA


def without_repeats(nodes: Sequence[fx.Node]) -> list[fx.Node]:
    """torch writes down what it concludes of one number several times, in the same words."""
    kept: list[fx.Node] = []
    told: set[str] = set()
    for node in nodes:
        words = message_of(node)
        if words not in told:
            kept.append(node)
        if words.startswith(_GENERATED):
            told.add(words)
    return kept


def message_of(node: fx.Node) -> str:
    """What the user says of the condition, or torch."""
    return str(node.args[1]) if len(node.args) > 1 else "Expected Tensor to be non-zero"


def ask(node: fx.Node, given: Ref, name: str) -> tuple[GraphNode, Asserted]:
    """The condition of an assertion as one bool, of a tensor with one element of any type."""
    source = _nearest_source(node)
    spec = TensorSpec(name, DType.BOOL, ())
    asked = GraphNode(name, "operator.item", (given,), (), (spec,), source)
    return asked, Asserted(Ref(name), message_of(node), str(node.target), source)


def _nearest_source(node: fx.Node) -> Source | None:
    """The user's line; of what torch concludes itself, that of the number it is about."""
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


def always(name: str) -> GraphNode:
    """A condition that holds."""
    spec = TensorSpec(name, DType.BOOL, ())
    return GraphNode(name, "aten.full.default", ((), True), (), (spec,), None)


def both(name: str, first: Ref, second: Ref) -> GraphNode:
    """A condition that holds where both do."""
    spec = TensorSpec(name, DType.BOOL, ())
    return GraphNode(name, "aten.logical_and.default", (first, second), (), (spec,), None)


def words_of(
    found: Sequence[Asserted], unused: Callable[[str], str]
) -> tuple[tuple[Assertion, ...], tuple[GraphNode, ...], tuple[tuple[str, Ref], ...]]:
    """The assertions, the nodes that give their words' values, and the words' updates."""
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
    """The test of a loop gives its answer alone."""
    if found:
        raise UnsupportedError(
            f"its test asserts {found[0].message!r}; assert it in the body, or on the result"
        )
