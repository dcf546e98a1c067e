"""What calls check of data: assertions, and sizes that data decide with conditions on them."""

from dataclasses import dataclass

from aotpack.ir.symbolic.integers import Int, Var


@dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion of the model on data. ``word`` names its flag, a 0-d int32 tensor.

    The flag is an input and an update of the program that no caller sees: 0 until the condition
    fails in a run, 1 from then on. ``place`` is the operator and the user's line.
    """

    word: str
    message: str
    place: str


@dataclass(frozen=True, slots=True)
class CountedSize:
    """A size that data decide. ``place`` is the operator that yields it and the user's line."""

    size: Var
    place: str


@dataclass(frozen=True, slots=True)
class SizeCondition:
    """A condition on counted sizes beside their ranges: ``holds`` is 1 where it holds, else 0.

    It holds in every call that goes on: torch.export relied on it. ``text`` states it.
    """

    holds: Int
    text: str
    place: str
