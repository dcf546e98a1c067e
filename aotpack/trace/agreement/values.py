"""When two results agree: equal integers, floats to half the digits of their type.

Half of the digits separate another function from another order of rounding.
"""

import math

import torch

from aotpack.errors import a_type


def difference(wanted: torch.Tensor, found: torch.Tensor) -> str | None:
    """How a result departs from the wanted one, as the rest of a sentence; None if they agree."""
    if wanted.dtype is not found.dtype or wanted.shape != found.shape:
        return f"is {shown(found)}, not {shown(wanted)}"
    if wanted.is_complex():
        return difference(torch.view_as_real(wanted), torch.view_as_real(found))
    if not wanted.is_floating_point():
        count = int(torch.count_nonzero(wanted != found))
        return f"differs in {count} of {wanted.numel()} elements" if count else None
    apart = _apart(wanted, found)
    x, y = wanted[apart].double(), found[apart].double()
    finite = x.isfinite()
    exact = torch.where(finite, 0.0, x).nan_to_num(0.5), torch.where(finite, 0.0, y).nan_to_num(0.5)
    if not torch.equal(finite, y.isfinite()) or not torch.equal(*exact):
        return "has infinities or NaN in other places"
    if not finite.any():
        return None
    off = float((x - y)[finite].abs().max())
    if off <= tolerance(wanted):
        return None
    return f"differs by {off:.3g} (its values reach {_largest(wanted):.3g})"


def _apart(wanted: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Where two results differ, or are NaN: in a cache, few elements."""
    if wanted.element_size() == 1:  # 8-bit floats do not compare
        wanted, found = wanted.float(), found.float()
    return wanted != found


def tolerance(wanted: torch.Tensor) -> float:
    """The difference of floats up to which they agree."""
    return math.sqrt(torch.finfo(wanted.dtype).eps) * _largest(wanted)


def _largest(wanted: torch.Tensor) -> float:
    """The largest finite size; 0 if there is none."""
    exact = wanted.float() if wanted.element_size() == 1 else wanted  # not all know what is finite
    sizes = exact.abs().nan_to_num(0.0, 0.0, 0.0)
    return float(sizes.max()) if sizes.numel() else 0.0


def shown(value: object) -> str:
    """The element type and shape of a tensor, the type of anything else."""
    if not isinstance(value, torch.Tensor):
        return a_type(value)
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
