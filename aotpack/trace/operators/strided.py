"""Views by strides: whether each element that they address is there, for all admitted sizes.

How many elements are left behind the last that a view addresses is a polynomial of the sizes. Where
each monomial has a size once, its least value lies at ends of their ranges: a bound without search.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from aotpack.errors import UnsupportedError
from aotpack.ir.symbolic.facts import known_nonnegative
from aotpack.ir.symbolic.integers import Int, Quotient, Remainder, Var, product, total
from aotpack.trace.diagnostics.multiples import SomeSizesError
from aotpack.trace.operators.positions import arguments_of
from aotpack.trace.sizes import Sizes
from aotpack.trace.source import source_of

BY_STRIDES = frozenset(
    {"aten.as_strided.default", "aten.as_strided_copy.default", "aten.as_strided_scatter.default"}
)
_MOST_CORNERS = 2**12
_Values = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reach:
    """The shape of a view, the elements of its tensor, and those behind the last it addresses."""

    shape: tuple[Int, ...]
    count: Int
    left: Int


def reach_of(given: Mapping[str, Any], sizes: Sizes) -> Reach:
    """Of a call of ``as_strided``, whose first argument lies in row-major order."""

    def number(value: Any) -> Int:
        return sizes.convert(value.meta["val"] if isinstance(value, fx.Node) else value)

    shape = tuple(map(number, given["size"]))
    steps = map(number, given["stride"])
    last = total([(size - 1) * step for size, step in zip(shape, steps, strict=True)])
    count = product(map(sizes.convert, given["self"].meta["val"].shape))
    return Reach(shape, count, count - 1 - last - number(given["storage_offset"] or 0))


def check_strided(name: str, program: ExportedProgram, sizes: Sizes) -> None:
    """Refuse a view that leaves its tensor for an admitted size; calls check counted sizes."""
    counted = {sizes.variables[symbol] for symbol in sizes.counted}
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, fx.GraphModule) else ():
            if isinstance(node.target, OpOverload) and str(node.target) in BY_STRIDES:
                try:
                    view = reach_of(arguments_of(node), sizes)
                except UnsupportedError:  # of which reading the call tells
                    continue
                if counted.isdisjoint(_variables(view)):
                    _check(name, node, view)


def _check(name: str, node: fx.Node, view: Reach) -> None:
    if known_nonnegative(view.left):
        return
    failing = next((at for at in _corners(_variables(view)) if _fails(view, at)), None)
    if failing is None and _least_at_corners(view.left):
        return
    source = source_of(node)
    place = f"\n  at {source}" if source else ""
    if failing is not None:
        case = ", ".join(f"{size}={value}" for size, value in failing.items())
        last = (view.count - 1 - view.left).evaluate(failing)
        found = f"addresses element {last} of {view.count.evaluate(failing)}"
        found += f", where {case}" if case else ""
    else:
        found = (
            f"may leave its tensor: behind the last element that it addresses, {view.left} are "
            "left, and that this is never negative does not follow from the ends of the ranges"
        )
    raise SomeSizesError(
        f"exporting {name}: {node.target} {found}. Give dynamic sizes narrower ranges, or a shape, "
        f"strides and an offset that stay inside for each of them.{place}"
    )


def _variables(view: Reach) -> list[Var]:
    leaves = (leaf for one in (*view.shape, view.left) for leaf in one.leaves())
    return list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, Var)))


def _corners(variables: list[Var]) -> Iterator[dict[str, int]]:
    """The ends of the ranges, in all combinations up to a number."""
    ends = [dict.fromkeys((one.low, one.high)) for one in variables]
    for corner in itertools.islice(itertools.product(*ends), _MOST_CORNERS):
        yield {one.name: value for one, value in zip(variables, corner, strict=True)}


def _fails(view: Reach, at: _Values) -> bool:
    """A view without elements addresses none."""
    return view.left.evaluate(at) < 0 and all(size.evaluate(at) > 0 for size in view.shape)


def _least_at_corners(left: Int) -> bool:
    """True for what is nowhere negative, as it is not at the ends of ranges and linear between."""
    return all(_is_linear(piece) and _is_positive(piece) for piece in _without_quotients(left))


def _is_linear(value: Int) -> bool:
    """True for a polynomial in whose monomials each size stands once."""
    return all(
        len(set(monomial)) == len(monomial) and all(isinstance(atom, Var) for atom in monomial)
        for monomial, _ in value.terms
    )


def _is_positive(value: Int) -> bool:
    """True for what is not negative at any corner, of which there are not too many."""
    variables = [atom for atom in value.leaves() if isinstance(atom, Var)]
    is_small = 2 ** len(variables) <= _MOST_CORNERS
    return is_small and all(value.evaluate(corner) >= 0 for corner in _corners(variables))


def _without_quotients(value: Int) -> Iterator[Int]:
    """With ``d * quotient + rest`` in place of a size that is divided by one number ``d`` alone."""
    divided: dict[Var, set[int]] = {}
    for atom in value.atoms():
        if isinstance(atom, (Quotient, Remainder)):
            size, by = atom.num.atom, atom.den.constant
            if isinstance(size, Var) and by:
                divided.setdefault(size, set()).add(by)
    single = {size: by for size, (by, *more) in divided.items() if not more}
    for parts in itertools.product(*(_pieces(size, by) for size, by in single.items())):
        yield value.substitute(dict(zip(single, parts, strict=True)))


def _pieces(size: Var, by: int) -> Iterator[Int]:
    """The range of a size by its quotients: the first, those between, and the last."""
    first, last = size.low // by, size.high // by
    ends = {
        (first, first, size.low % by, size.high % by if first == last else by - 1),
        (first + 1, last - 1, 0, by - 1),
        (last, last, size.low % by if first == last else 0, size.high % by),
    }
    for low, high, least, most in sorted(ends):
        if low <= high:
            quotient = Int.of(Var(f"{size.name}_quotient", low, high))
            yield quotient * by + Int.of(Var(f"{size.name}_rest", least, most))
