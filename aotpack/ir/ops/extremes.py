"""Reductions that find positions. NaN beats numbers; of equals the first or the last wins."""

from dataclasses import replace

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import LAST_INDEX, Monoid, States

NEIGHBOURS = 8  # in a group of "near_max": 16-bit elements of the widest load


def indexed(name: str, *, largest: bool, latest: bool, with_value: bool) -> Monoid:
    """The position of the extreme: NaN beats numbers; of equals the first or the last wins."""

    def combine(a: States, b: States) -> States:
        a_nan, b_nan = a[0] != a[0], b[0] != b[0]
        beyond = a[0] > b[0] if largest else a[0] < b[0]
        earlier = a[1] > b[1] if latest else a[1] < b[1]
        take = (beyond & ~b_nan) | (a_nan & ~b_nan) | (((a[0] == b[0]) | (a_nan & b_nan)) & earlier)
        return np.where(take, a[0], b[0]), np.where(take, a[1], b[1])

    return Monoid(
        name=name,
        states=(None, DType.INT64),
        results=(None, DType.INT64) if with_value else (DType.INT64,),
        identity=("low" if largest else "high", -1 if latest else LAST_INDEX),
        lift=lambda element, index: (element, index),
        combine=combine,
        finalise=lambda states: states if with_value else states[1:],
        finds_first=not latest,
    )


def near(extremum: str) -> Monoid:
    """The extreme, and the first of its aligned group of neighbours: less to compare."""
    return replace(
        indexed(f"near_{extremum}", largest=extremum == "max", latest=False, with_value=True),
        finalise=lambda states: (states[0], states[1] - states[1] % NEIGHBOURS),
    )


def placed(extremum: str) -> Monoid:
    """The position given with the extreme; of equals the least."""
    return replace(
        indexed(f"placed_{extremum}", largest=extremum == "max", latest=False, with_value=False),
        inputs=2,
    )
