"""Elements at places that data or dynamic sizes decide: ``y[i]``, ``y[n - 1, i] = v``.

Export makes a number of Python of a tensor ``i`` of one integer that is written at, or that stands
beside other tensors in a key; torch takes the example's number of ``n - 1`` in a key of several
parts that is written at. In bodies of branches and loops export reads no ``y[i]``: there it is
copied, so bodies change no ``y[i]`` in place.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch.overrides import TorchFunctionMode

READ: Any = torch.Tensor.__getitem__
WRITE: Any = torch.Tensor.__setitem__
_Choose: TypeAlias = Callable[[torch.Tensor, int, torch.Tensor], torch.Tensor]


class CopiedElements(TorchFunctionMode):
    """Inside the block, ``y[i]`` where data decide ``i`` is a copy, not a view.

    A number in ``y[k] = 2`` is a tensor that is made there, not a constant.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is READ:
            return _read(*args, is_copied=True)
        if func is WRITE and isinstance(args[2], (int, float, complex)):
            args = (*args[:2], as_tensor(args[2], args[0]))
        return func(*args, **(kwargs or {}))


def get_item(tensor: torch.Tensor, key: Any) -> torch.Tensor:
    """``y[i, indices]``, which is a copy; ``y[i]`` is a view, and left to torch."""
    return _read(tensor, key, is_copied=False)


def _read(tensor: torch.Tensor, key: Any, *, is_copied: bool) -> torch.Tensor:
    parts = _parts(key)
    if any(map(_is_place, parts)) and (is_copied or any(map(_is_wide, parts))):
        tensor, key = _parted(tensor, parts, _copied)
    return cast(torch.Tensor, READ(tensor, key))


def set_item(tensor: torch.Tensor, key: Any, value: Any) -> None:
    """``y[i] = value`` where data decide ``i``, or a size an ``n - 1`` beside other parts."""
    parts = _parts(key)
    is_counted = isinstance(key, tuple) and any(isinstance(one, torch.SymInt) for one in parts)
    is_single = any(map(_is_place, parts))
    if is_single and not any(map(_is_wide, parts)):
        _put(tensor, parts, as_tensor(value, tensor))
        return
    if is_counted or is_single:
        value = _apart(value, tensor) if isinstance(value, torch.Tensor) else value
        tensor, key = _parted(tensor, parts, _row)
    WRITE(tensor, key, value)


def _put(tensor: torch.Tensor, parts: Sequence[Any], value: torch.Tensor) -> None:
    """Write where tensors of one integer say, without making them numbers of Python."""
    view, rest = _parted(tensor, parts, None)
    places = [_apart(one.long(), tensor) if _is_place(one) else None for one in rest]
    value = _apart(value, tensor)
    while value.dim() > view.dim() - sum(map(_is_place, rest)) and value.shape[0] == 1:
        value = value.squeeze(0)
    torch.ops.aten.index_put_.default(view, places, value)


def as_tensor(number: torch.Tensor | complex, like: torch.Tensor) -> torch.Tensor:
    """A number as a tensor, without a constant: bodies of branches have none."""
    if isinstance(number, torch.Tensor):
        return number.to(like)
    return torch.full((), number, dtype=like.dtype, device=like.device)


def _apart(value: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
    """A tensor in memory of its own, as the row of ``y[i] += 1`` is not."""
    memory, other = (one.untyped_storage()._cdata for one in (value, written))
    return value.clone() if memory == other else value


def _parted(
    tensor: torch.Tensor, parts: Sequence[Any], choose: _Choose | None
) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """What the parts of a key that are no tensors choose, and the rest of the key.

    ``choose`` does it for tensors of one integer: torch takes these for numbers, too.
    """
    view, dim = tensor, 0
    rest: list[Any] = []
    left = tensor.dim() - sum(map(_taken, parts))  # the dimensions of an Ellipsis
    for one in parts:
        added = [slice(None)] * (left if one is Ellipsis else 1)
        if isinstance(one, (int, torch.SymInt)):
            view, added = view.select(dim, one), []
        elif choose is not None and _is_place(one):
            view, added = choose(view, dim, one), []
        elif _is_place(one) or _is_wide(one):
            added = [one]
        elif one is None:
            view = view.unsqueeze(dim)
        elif isinstance(one, slice):
            view = view[(slice(None),) * dim + (one,)]
        rest += added
        dim += sum(map(_taken, added))
    return view, tuple(rest)


def _copied(tensor: torch.Tensor, dim: int, place: torch.Tensor) -> torch.Tensor:
    return cast(torch.Tensor, torch.ops.aten.index.Tensor(tensor, [*[None] * dim, place]))


def _row(tensor: torch.Tensor, dim: int, place: torch.Tensor) -> torch.Tensor:
    return tensor.select(dim, cast(int, place.item()))


def _taken(part: Any) -> int:
    """How many dimensions of the tensor a part of a key is for, Ellipsis aside."""
    if isinstance(part, torch.Tensor) and _is_mask(part):
        return part.dim()
    return int(part is not None and part is not Ellipsis)


def _parts(key: Any) -> tuple[Any, ...]:
    """The parts of a key; none where one is of another kind than those that are read here."""
    parts = key if isinstance(key, tuple) else (key,)
    is_read = all(_is_place(one) or _is_wide(one) or _is_view(one) for one in parts)
    return parts if is_read and sum(one is Ellipsis for one in parts) <= 1 else ()


def _is_place(part: Any) -> bool:
    """True for a tensor of one integer that data decide; uint8 and bool are masks."""
    if not isinstance(part, torch.Tensor) or part.dim():
        return False
    is_index = not part.is_floating_point() and not part.is_complex()
    is_known = getattr(part, "constant", None) is not None
    return is_index and not _is_mask(part) and not is_known


def _is_wide(part: Any) -> bool:
    """True for a tensor of indices, or a mask, with dimensions, and for a list of numbers."""
    if isinstance(part, list):
        return all(isinstance(one, int) and not isinstance(one, bool) for one in part)
    return isinstance(part, torch.Tensor) and part.dim() > 0


def _is_mask(part: torch.Tensor) -> bool:
    return part.dtype in (torch.bool, torch.uint8)


def _is_view(part: Any) -> bool:
    """True for what makes a view of a tensor."""
    is_number = isinstance(part, (int, torch.SymInt)) and not isinstance(part, bool)
    return part is None or part is Ellipsis or is_number or isinstance(part, slice)
