"""What a call checks of the sizes that data decide, beside their ranges."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import fx

from aotpack.ir.symbolic.integers import Int, maximum, minimum
from aotpack.stages import CountedSize, Signature, SizeCondition
from aotpack.trace.operators.assertions import is_assertion, nearest_source
from aotpack.trace.operators.counted.bindings import Counted
from aotpack.trace.operators.counted.demands import demands_in
from aotpack.trace.sizes import Sizes, symbols_in


def with_counted(
    signature: Signature, graph: fx.Graph, sizes: Sizes, counted: Counted, live: set[fx.Node]
) -> Signature:
    """The signature with the sizes that the ``live`` calls yield, and the conditions on them."""
    found = tuple(
        CountedSize(binding.size, _described(node))
        for node, bindings in counted.bindings.items()
        if node in live
        for binding in bindings
    )
    conditions = _conditions(graph, sizes, counted, live)
    return replace(signature, counted=found, conditions=conditions)


def _conditions(
    graph: fx.Graph, sizes: Sizes, counted: Counted, live: set[fx.Node]
) -> tuple[SizeCondition, ...]:
    """What the program asserts of the sizes that ``live`` calls yield, beside their ranges."""
    found: dict[Int, SizeCondition] = {}
    for node in graph.nodes:
        if not is_assertion(node) or not isinstance(node.args[0], fx.Node):
            continue
        value = node.args[0].meta.get("val")
        known = [counted.sources[one] for one in symbols_in(value) & sizes.counted]
        if isinstance(value, torch.SymBool) and known and live.issuperset(known):
            holds = sizes.truth(value)
            if holds.constant != 1 and sizes.knows(value):
                made = SizeCondition(holds, sizes.stated(value), _described(node))
                found.setdefault(holds, made)
    calls = {Int.of(sizes.variables[one]): node for one, node in counted.sources.items()}
    for node, asked in demands_in(graph, sizes):
        known = [calls[leaf] for leaf in map(Int.of, asked.holds.leaves()) if leaf in calls]
        is_checked = bool(known) or asked.is_checked_in_calls
        if is_checked and live.issuperset(known):
            made = SizeCondition(asked.holds, asked.text, _described(node))
            found.setdefault(asked.holds, made)
    return (*found.values(), *_divisors(sizes, calls, live), *_dimensions(sizes, counted, live))


def _divisors(
    sizes: Sizes, calls: Mapping[Int, fx.Node], live: set[fx.Node]
) -> Iterator[SizeCondition]:
    """Sizes are divided by 1 and more."""
    for divisor in sizes.divisors:
        known = [calls[leaf] for leaf in map(Int.of, divisor.leaves()) if leaf in calls]
        if live.issuperset(known):
            holds = minimum(maximum(divisor, 0), 1)
            yield SizeCondition(holds, f"{divisor} >= 1", f"a division by {divisor}")


def _dimensions(sizes: Sizes, counted: Counted, live: set[fx.Node]) -> Iterator[SizeCondition]:
    """Numbers and dimensions that torch expresses by other sizes, which an assertion made equal."""
    for node, found in counted.bindings.items():
        for binding in found if node in live else ():
            values = node.meta["val"]
            value = values[binding.output] if isinstance(values, (tuple, list)) else values
            is_number = binding.dimension is None
            shown = sizes.convert(value if is_number else value.shape[binding.dimension])
            holds = sizes.equal(Int.of(binding.size), shown)
            if holds.constant != 1:
                yield SizeCondition(
                    holds,
                    f"{binding.size} == {shown}",
                    _described(node),
                )


def _described(node: fx.Node) -> str:
    source = nearest_source(node)
    return f"{node.target} at {source}" if source else str(node.target)
