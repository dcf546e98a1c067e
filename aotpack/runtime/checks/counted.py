"""Checks sizes that data decide: their ranges, and the conditions that torch.export relied on."""

from collections.abc import Collection, Mapping

from ..errors import AssertionFailed
from ..manifest import Signature
from ..plan import Launch, Part


def check_counted(signature: Signature, new: Collection[str], sizes: Mapping[str, int]) -> None:
    """Raise AssertionFailed if a ``new`` size leaves its range, or ``sizes`` break a condition."""
    for size in signature.counted:
        if size.name in new and not size.low <= sizes[size.name] <= size.high:
            accepted = f"{size.low} to {size.high}" if size.low < size.high else str(size.low)
            raise AssertionFailed(
                f"calling {signature.name}: the data make the size {size.name} "
                f"{sizes[size.name]}; accepted: {accepted}\n  {size.place}"
            )
    for condition in signature.conditions:
        names = {*condition.holds.names}
        if not names <= sizes.keys() or not names.intersection(new):
            continue
        if not condition.holds.evaluate(sizes):
            found = ", ".join(f"{name} = {sizes[name]}" for name in condition.holds.names)
            raise AssertionFailed(
                f"calling {signature.name}: the data make {found}; accepted: sizes with "
                f"{condition.text}\n  {condition.place}"
            )


def check_lengths(signature: Signature, rest: Part, sizes: Mapping[str, int]) -> None:
    """Raise AssertionFailed if sizes leave a tensor less than no elements."""
    shapes = [
        size.evaluate(sizes)
        for tensor in signature.outputs
        for size in tensor.shape
        if sizes.keys() >= {*size.names}
    ]
    grids = [n for _, step in rest.steps() if isinstance(step, Launch) for n in step.grid]
    lengths = [buffer.size for buffer in rest.buffers]
    if min((*shapes, *grids, *lengths), default=0) < 0:
        counted = (one.name for one in signature.counted if one.name in sizes)
        found = ", ".join(f"{name} = {sizes[name]}" for name in counted)
        raise AssertionFailed(
            f"calling {signature.name}: the data make {found}, by which a tensor has a negative "
            "size; accepted: sizes that leave each tensor 0 elements or more"
        )
