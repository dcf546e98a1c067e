"""The accuracy law: when a result is right beside its reference.

The error of an output against the float64 reference is at most 1.5 times eager's error plus one
unit of the output type at the reference's scale. Each element is also held to a bound of its own,
which the build has recorded. Integers and bools must be equal, but those that a rounding changes:
they lie in recorded ranges.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..dtypes import DTYPES, Array, DType, widen
from ..safetensors import Stored
from .samples import Sampled

_BOUND = DTYPES["bfloat16"]
_DIFFER = (
    "differ from eager's where a rounding decides; "
    "--precision strict rounds 16-bit operators as eager does"
)


@dataclass(frozen=True, slots=True)
class Check:
    """The error of one output, and that of eager at the build, against the reference.

    Errors are the largest differences; for integers and bools, the number of wrong elements.
    ``differing`` ones are right, and other than eager's: a rounding decides them. ``place`` is the
    element that breaks a bound of its own. ``left_out`` elements are not compared, for eager
    overflows there; where that is all, the check fails.
    """

    name: str
    error: float
    eager: float
    bound: float
    counts: bool = False
    place: str = ""
    left_out: int = 0
    differing: int = 0

    @property
    def is_passed(self) -> bool:
        return self.error <= self.bound

    def __str__(self) -> str:
        verdict = "ok" if self.is_passed else "WRONG"
        if self.counts:
            rest = f" ({self.differing} {_DIFFER})" if self.differing else ""
            wrong = f"{self.error:.0f} elements are wrong{self.place}{rest}"
            return f"{self.name}: {wrong}: {verdict}"
        if self.left_out and self.error == np.inf:
            return f"{self.name}: not compared: eager overflows: {verdict}"
        rest = f", {self.left_out} elements not compared: eager overflows" if self.left_out else ""
        which = f"error {self.error:.3g} at {self.place}" if self.place else ""
        return (
            f"{self.name}: {which or f'largest error {self.error:.3g}'}, eager's {self.eager:.3g}, "
            f"allowed {self.bound:.3g}{rest}: {verdict}"
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """The recorded limits of the elements of one result, and of its sums if it is sampled."""

    bounds: Array | None = None
    ranges: Array | None = None
    sums: Array | None = None
    slack: Array | None = None
    sampled: Sampled | None = None
    eager: Array | None = None  # its values of the elements that have ranges


NO_LIMITS = Limits()


def limits_of(golden: Mapping[str, Stored], sampled: Mapping[str, Sampled], result: str) -> Limits:
    """The limits of a result, which is called outputs/NAME or updates/NAME."""
    kinds = ("bounds", "ranges", "sums", "slack", "eager")
    found = (golden.get(f"{kind}/{result}") for kind in kinds)
    bounds, ranges, sums, slack, eager = (None if one is None else one.data for one in found)
    return Limits(bounds, ranges, sums, slack, sampled.get(result), eager)


def compare(
    name: str,
    found: Array,
    reference: Array,
    dtype: DType,
    eager_error: float,
    limits: Limits = NO_LIMITS,
) -> Check:
    """The law for one output; ``reference`` holds the samples of one that is sampled."""
    sampled = limits.sampled
    shape = sampled.shape if sampled else reference.shape
    if found.shape != shape:
        return Check(f"{name} of shape {found.shape} for {shape}", np.inf, eager_error, 0.0)
    if sampled and sampled.size:
        places = sampled.places()
        flat = _wide(found, dtype).reshape(-1) if dtype.eps else found.reshape(-1)
        check = _element_check(name, flat[places], reference, dtype, eager_error, limits)
        return check if not check.is_passed else _sum_check(check, flat, limits, sampled)
    return _element_check(name, found, reference, dtype, eager_error, limits)


def _element_check(
    name: str,
    found: Array,
    reference: Array,
    dtype: DType,
    eager_error: float,
    limits: Limits,
) -> Check:
    """The law for elements: all, or the samples."""
    if dtype.eps == 0:
        return _exactly(name, found, reference, eager_error, limits)
    wide, wanted = _wide(found, dtype), _wide(reference, dtype)
    finite = np.isfinite(wanted)
    if not np.array_equal(wide[~finite], wanted[~finite], equal_nan=True):
        return Check(f"{name} (infinities and NaNs)", np.inf, eager_error, 0.0)
    with np.errstate(invalid="ignore"):
        errors = np.where(finite, np.abs(wide - wanted), 0.0)
    errors = np.nan_to_num(errors, nan=np.inf, posinf=np.inf)
    scale = np.abs(wanted[finite]).max(initial=0.0)
    law = 1.5 * eager_error + dtype.eps * float(scale)
    if limits.bounds is None:
        return Check(name, float(errors.max(initial=0.0)), eager_error, law)
    own = widen(limits.bounds, _BOUND).astype(np.float64)
    left_out = int(np.count_nonzero(finite & np.isinf(own)))
    if left_out and left_out == own.size:
        return Check(name, np.inf, eager_error, 0.0, left_out=left_out)
    with np.errstate(invalid="ignore"):
        beyond = np.where(errors > own, errors - own, 0.0)
    if not beyond.any():
        measured = np.isfinite(own)
        largest, most = (float(one[measured].max(initial=0.0)) for one in (errors, own))
        return Check(name, largest, eager_error, most, left_out=left_out)
    worst = int(np.argmax(beyond))
    place = _place(worst, limits.sampled, found.shape)
    return Check(name, float(errors.flat[worst]), eager_error, float(own.flat[worst]), place=place)


def _sum_check(check: Check, flat: Array, limits: Limits, sampled: Sampled) -> Check:
    """The sums over blocks of a result whose samples are right; ``check`` is theirs."""
    assert limits.sums is not None
    if check.counts:
        sums, (low, high) = sampled.integer_sums(flat), limits.sums.T
        wrong = (sums < low) | (sums > high)
        error, bound = float(np.count_nonzero(wrong)), 0.0
    else:
        assert limits.slack is not None
        with np.errstate(invalid="ignore"):
            off = np.abs(sampled.float_sums(flat) - limits.sums)
            beyond = ~(off <= limits.slack)
        wrong = beyond.any(1)
        error, bound = float(off[beyond][0]) if wrong.any() else 0.0, 0.0
    if not wrong.any():
        return check
    block = int(np.argmax(wrong))
    start, end = block * sampled.block, min((block + 1) * sampled.block, sampled.size) - 1
    first, last = (_place(one, None, sampled.shape) for one in (start, end))
    name = f"{check.name}, the sums of elements {first} to {last}"
    return Check(name, error, check.eager, bound, counts=check.counts)


def _exactly(
    name: str, found: Array, reference: Array, eager_error: float, limits: Limits
) -> Check:
    """Integers and bools: equal, or in their ranges."""
    wrong = np.asarray(found != reference).reshape(-1)
    differing = 0
    if limits.ranges is not None:
        places, low, high = limits.ranges.T
        values = found.reshape(-1)[places]
        wrong[places] = (values < low) | (values > high)
        if limits.eager is not None:
            differing = int(np.count_nonzero((values != limits.eager) & ~wrong[places]))
    count = int(np.count_nonzero(wrong))
    first = _place(int(wrong.argmax()), limits.sampled, found.shape) if count else ""
    place = f", first at {first}" if count else ""
    return Check(
        name, float(count), eager_error, 0.0, counts=True, place=place, differing=differing
    )


def _place(index: int, sampled: Sampled | None, shape: tuple[int, ...]) -> str:
    """The position of an element, or of a sample, in words."""
    if sampled:
        index, shape = int(sampled.places()[index]), sampled.shape
    return str([int(one) for one in np.unravel_index(index, shape)])


def _wide(array: Array, dtype: DType) -> Array:
    is_bits = array.dtype.name == dtype.storage
    return (widen(array, dtype) if is_bits else array).astype(np.float64)
