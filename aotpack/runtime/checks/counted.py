"""Checks sizes that data decide: their ranges, and the conditions that torch.export relied on."""

from collections.abc import Collection, Mapping

from ..errors import AssertionFailed
from ..manifest import Signature


def check_counted(signature: Signature, new: Collection[str], sizes: Mapping[str, int]) -> None:
    """Raise AssertionFailed if a ``new`` size leaves its range, or ``sizes`` break a condition."""
    for size in signature.counted:
        if size.name in new and not size.low <= sizes[size.name] <= size.high:
            raise AssertionFailed(
                f"calling {signature.name}: the data make the size {size.name} "
                f"{sizes[size.name]}; accepted: {size.low} to {size.high}\n  {size.place}"
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
