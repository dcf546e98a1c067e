"""Parts of tensors: chunks, splits, rows of a dimension, combinations."""

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, combinations_with_replacement, pairwise
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import (
    free_symbols,
    free_unbacked_symbols,
    statically_known_true,
)

from aotpack.errors import TraceError
from aotpack.trace.diagnostics.asked.branches import note_assumed
from aotpack.trace.operators.any_length.declared import is_declared, is_multiple

_Function = Callable[..., Any]
_smaller: _Function = torch.sym_min
_check: _Function = torch._check
_torch_chunk: _Function = torch.chunk
_torch_split: _Function = torch.split
_torch_tensor_split: _Function = torch.tensor_split
_torch_combinations: _Function = torch.combinations
_torch_unbind: _Function = torch.unbind


def _chunk(input: torch.Tensor, chunks: int, dim: int = 0) -> Any:
    """As many parts as of the example, of sizes near it that give as many.

    Two chunks are halves; of a size of 1 there is one. Of a multiple of their number there are that
    many, of one length.
    """
    size = input.shape[dim]
    if not isinstance(size, torch.SymInt) or chunks < 1:
        return _torch_chunk(input, chunks, dim)
    if is_multiple(size, chunks):
        length = size // chunks
        return tuple(input.narrow(dim, n * length, length) for n in range(chunks))
    if chunks == 2:
        note_assumed(size >= 2)
        if not size.node.expr.is_Symbol:  # torch.export takes such a one for 2 or more
            _check(size >= 2)
        return _between(input, dim, [0, (size + 1) // 2, size])
    if not size.node.has_hint() or not _hint(size):
        return _torch_chunk(input, chunks, dim)
    low, high = _sizes_of_as_many(_hint(size), chunks)
    _check(size >= low)
    if high is not None:
        _check(size <= high)
    length = (size + chunks - 1) // chunks
    return _between(input, dim, [*(n * length for n in range(_parts(low, chunks))), size])


def _parts(size: int, chunks: int) -> int:
    """How many parts ``chunk`` makes, all but the last of which have one length."""
    return -(-size // -(-size // chunks))


def _sizes_of_as_many(size: int, chunks: int) -> tuple[int, int | None]:
    """The sizes around one that give as many parts; there is no last where all further ones do.

    That is so behind ``(chunks - 1) ** 2``, which gives one part less than ``chunks``.
    """
    count, last = _parts(size, chunks), (chunks - 1) ** 2
    low = high = size
    while low > 1 and _parts(low - 1, chunks) == count:
        low -= 1
    while high <= last and _parts(high + 1, chunks) == count:
        high += 1
    return low, high if high <= last else None


def _tensor_split(input: torch.Tensor, *given: Any, dim: int = 0, **named: Any) -> Any:
    """The first parts have one element more where the size is no multiple of their number."""
    count, *places = given or (named.get("sections"), dim)
    dim = places[0] if places else dim
    if not isinstance(count, int) or not isinstance(input.shape[dim], torch.SymInt):
        return _torch_tensor_split(input, *given[:1], dim=dim, **named)
    length, longer = input.shape[dim] // count, input.shape[dim] % count
    ends: list[Any] = [n * length + _smaller(n, longer) for n in range(1, count)]
    return _between(input, dim, [0, *ends, input.shape[dim]])


def _between(x: torch.Tensor, dim: int, ends: Iterable[Any]) -> tuple[torch.Tensor, ...]:
    return tuple(x.narrow(dim, begin, end - begin) for begin, end in pairwise(ends))


def _split(tensor: torch.Tensor, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Parts of a dynamic length, where their count follows from how the whole was made.

    Sizes that only the caller declares equal are taken to be, if the parts come out even.
    """
    length, size = split_size_or_sections, tensor.shape[dim]
    if isinstance(length, torch.SymInt) and length.node.has_hint() and _hint(length):
        count = -(-_hint(size) // _hint(length))
        rest = size - count * length
        if _hint(rest) == 0 and len(free_symbols(rest)) > 1:
            _check(rest == 0)
        least = (count - 1) * length
        if count and statically_known_true(least < size) and statically_known_true(rest <= 0):
            return _between(tensor, dim, [*(n * length for n in range(count)), size])
    return _torch_split(tensor, length, dim)


def _unbind(input: torch.Tensor, dim: int = 0) -> Any:
    """Each entry of a dimension is a view by itself: a change of one is written for all sizes."""
    shape = input.shape
    if not -len(shape) <= dim < len(shape):
        return _torch_unbind(input, dim)
    if is_declared(shape[dim]) and not free_unbacked_symbols(shape[dim]):
        raise TraceError(
            f"unbind of dimension {dim} of a tensor gives a number of tensors that depends on its "
            "size, which is dynamic, and a package has a fixed number of them (unbind is also what "
            "`for row in x` and `a, b = x` call): compute with the whole tensor, as x.sum(0) for a "
            "sum of rows, use map or scan of torch._higher_order_ops, or leave the "
            "dimension out of the dynamic shapes"
        )
    if isinstance(shape[dim], torch.SymInt) or not any(
        isinstance(size, torch.SymInt) for size in shape
    ):
        return _torch_unbind(input, dim)
    return tuple(input.select(dim, place) for place in range(shape[dim]))


def _hint(size: Any) -> int:
    return int(size.node.hint if isinstance(size, torch.SymInt) else size)


def _combinations(input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    """Rows of elements by their places, which are constants; pairs of any number of elements."""
    if input.dim() != 1 or r < 1:
        return _torch_combinations(input, r, with_replacement)
    if r == 1:
        return input.clone().unsqueeze(1)
    count = input.shape[0]
    if not isinstance(count, torch.SymInt):
        chosen = combinations_with_replacement if with_replacement else combinations
        places = torch.tensor([*chosen(range(count), r)], dtype=torch.int64).reshape(-1, r)
        return input[places]
    if r != 2:
        raise TraceError(
            f"torch.combinations takes {r} of a dynamic number of elements, and 1 or 2 are "
            "accepted: "
            "leave the dimension out of the dynamic shapes, or index with places that you compute"
        )
    return input[_pairs(count, int(with_replacement))]


def _pairs(count: Any, own: int) -> torch.Tensor:
    """Places of pairs, the first of which come in order; with those of one place, if ``own``."""
    i, k = torch.arange(count), torch.arange(count * (count - 1 + 2 * own) // 2)
    begins = i * (2 * count - 1 + 2 * own - i) // 2
    first = torch.searchsorted(begins, k, right=True) - 1
    return torch.stack([first, k - begins[first] + first + 1 - own], 1)


PARTS: Mapping[_Function, _Function] = {
    **dict.fromkeys((torch.chunk, torch.Tensor.chunk), _chunk),
    **dict.fromkeys((torch.split, torch.Tensor.split), _split),
    **dict.fromkeys((torch.tensor_split, torch.Tensor.tensor_split), _tensor_split),
    **dict.fromkeys((torch.unbind, torch.Tensor.unbind), _unbind),
    torch.combinations: _combinations,
}
