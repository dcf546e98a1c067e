"""Functions by name, and all of them in a table."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import statically_known_true

from aotpack.errors import TraceError
from aotpack.trace.operators.any_length.parts import PARTS
from aotpack.trace.operators.any_length.ranges import RANGES, counted
from aotpack.trace.operators.any_length.transforms import TRANSFORMS

_Function = Callable[..., Any]
_MIDDLE = 64
_larger: _Function = torch.sym_max
_bytes_of: Any = torch.Tensor.nbytes  # a property
_torch_max_pool1d: _Function = torch.max_pool1d
_torch_take_along_dim: _Function = torch.take_along_dim
_torch_kron: _Function = torch.kron
_torch_vander: _Function = torch.vander
_torch_linalg_vander: _Function = torch.linalg.vander
_torch_gradient: _Function = torch.gradient
_torch_multi_dot: _Function = torch.linalg.multi_dot
_torch_chain_matmul: _Function = torch.chain_matmul
_torch_mean: _Function = torch.mean
_torch_affine_grid: _Function = F.affine_grid
_torch_interpolate: _Function = F.interpolate
_torch_fill_diagonal: _Function = torch.Tensor.fill_diagonal_


def _is_dynamic(*tensors: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for tensor in tensors for size in tensor.shape)


def _max_pool1d(
    input: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,  # always, as another function returns them
) -> Any:
    """Over the columns of one row."""
    given = kernel_size, stride or kernel_size, padding, dilation
    if not _is_dynamic(input):
        return _torch_max_pool1d(input, *given, ceil_mode)
    kernel, step, edge, gap = ([one] if isinstance(one, int) else [*one] for one in given)
    of_rows = [1, *kernel], [1, *step], [0, *edge], [1, *gap]
    return torch.max_pool2d(input.unsqueeze(-2), *of_rows, ceil_mode).squeeze(-2)


def _take_along_dim(input: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> Any:
    """All of both for no dimension; else sizes beside it broadcast, and indices turn around."""
    if not _is_dynamic(input, indices) or input.dim() != indices.dim():
        return _torch_take_along_dim(input, indices, dim)
    if dim is None:
        return input.flatten().gather(0, indices.flatten())
    dim = range(input.dim())[dim]
    shapes = [[*one.shape[:dim], 1, *one.shape[dim + 1 :]] for one in (input, indices)]
    shape = [*torch.broadcast_shapes(*shapes)]  # type: ignore[no-untyped-call]
    shape[dim] = -1
    return input.expand(shape).gather(dim, indices.remainder(input.shape[dim]).expand(shape))


def _kron(input: torch.Tensor, other: torch.Tensor) -> Any:
    """All products, with the elements of ``other`` innermost in each dimension."""
    if not _is_dynamic(input, other):
        return _torch_kron(input, other)
    rank = max(input.dim(), other.dim())
    a, b = (x.reshape([1] * (rank - x.dim()) + [*x.shape]) for x in (input, other))
    shape = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    for dim in range(rank):
        a, b = a.unsqueeze(2 * dim + 1), b.unsqueeze(2 * dim)
    return (a * b).reshape(shape)


def _vander(
    x: torch.Tensor,
    N: int | None = None,  # noqa: N803 (torch's)
    increasing: bool = False,
) -> Any:
    if not _is_dynamic(x) or x.dim() != 1:
        return _torch_vander(x, N, increasing)
    found = _powers(x, x.shape[0] if N is None else N)
    return found if increasing else found.flip(1)


def _linalg_vander(x: torch.Tensor, *, N: int | None = None) -> Any:  # noqa: N803 (torch's)
    if not _is_dynamic(x):
        return _torch_linalg_vander(x, N=N)
    return _powers(x, x.shape[-1] if N is None else N)


def _powers(x: torch.Tensor, count: Any) -> torch.Tensor:
    """``x**0, x**1 ...`` along a new last dimension, each as the product of those before it."""
    each = x.unsqueeze(-1).expand(*x.shape, count)
    first = torch.arange(count, device=x.device) == 0
    return torch.where(first, torch.ones((), dtype=x.dtype), each).cumprod(-1)


def _gradient(
    input: torch.Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> Any:
    """Differences over two steps, and at the ends over one (of the second order, three points)."""
    dims = [*range(input.dim())] if dim is None else [dim] if isinstance(dim, int) else [*dim]
    steps = [1 if spacing is None else spacing] * len(dims)
    if isinstance(spacing, (tuple, list)):
        steps = [*spacing]
    is_plain = all(isinstance(one, (int, float)) for one in steps) and len(steps) == len(dims)
    if not _is_dynamic(input) or not is_plain or not input.is_floating_point():
        given = {} if spacing is None else {"spacing": spacing}
        return _torch_gradient(input, **given, dim=dim, edge_order=edge_order)
    return tuple(
        _differences(input, one, step, edge_order) for one, step in zip(dims, steps, strict=True)
    )


def _differences(x: torch.Tensor, dim: int, step: float, edge_order: int) -> torch.Tensor:
    size = x.shape[dim]

    def at(place: int) -> torch.Tensor:
        return x.narrow(dim, place if place >= 0 else size + place, 1)

    inside = (x.narrow(dim, 2, size - 2) - x.narrow(dim, 0, size - 2)) / (2 * step)
    if edge_order == 1:
        ends = at(1) - at(0), at(-1) - at(-2)
    else:
        ends = 2 * at(1) - 1.5 * at(0) - 0.5 * at(2), 1.5 * at(-1) - 2 * at(-2) + 0.5 * at(-3)
    return torch.cat([ends[0] / step, inside, ends[1] / step], dim)


def _multi_dot(tensors: Sequence[torch.Tensor]) -> Any:
    """Vectors at the ends are a row and a column."""
    if not _is_dynamic(*tensors) or len(tensors) < 3:
        return _torch_multi_dot(tensors)
    first, *inner, last = tensors
    factors = [first if first.dim() > 1 else first[None], *inner]
    factors.append(last if last.dim() > 1 else last[:, None])
    found = _product(factors)
    found = found if last.dim() > 1 else found.squeeze(1)
    return found if first.dim() > 1 else found.squeeze(0)


def _chain_matmul(*matrices: Any) -> Any:
    if len(matrices) < 3 or not _is_dynamic(*matrices):
        return _torch_chain_matmul(*matrices)
    return _product(matrices)


def _product(factors: Sequence[torch.Tensor]) -> torch.Tensor:
    """In the order with fewest operations for the example's sizes."""
    sizes = [_hint(factors[0].shape[0]), *(_hint(one.shape[1]) for one in factors)]
    best: dict[tuple[int, int], tuple[int, int]] = {}
    for length in range(2, len(factors) + 1):
        for begin in range(len(factors) - length + 1):
            end = begin + length
            best[begin, end] = min(
                (
                    best.get((begin, split), (0, 0))[0]
                    + best.get((split, end), (0, 0))[0]
                    + sizes[begin] * sizes[split] * sizes[end],
                    split,
                )
                for split in range(begin + 1, end)
            )

    def of(begin: int, end: int) -> torch.Tensor:
        if end - begin == 1:
            return factors[begin]
        split = best[begin, end][1]
        return of(begin, split) @ of(split, end)

    return of(0, len(factors))


def _hint(size: Any) -> int:
    """The example's size; of one that data decide, a middle one."""
    return int((size.node.hint or _MIDDLE) if isinstance(size, torch.SymInt) else size)


def _affine_grid(
    theta: torch.Tensor, size: Sequence[Any], align_corners: bool | None = None
) -> Any:
    rank = len(size) - 2
    is_taken = theta.is_floating_point() and [*theta.shape[1:]] == [rank, rank + 1]
    if not any(isinstance(one, torch.SymInt) for one in size) or not is_taken:
        return _torch_affine_grid(theta, size, align_corners)
    return affine_points(theta, size, bool(align_corners))


def affine_points(theta: torch.Tensor, size: Sequence[Any], align_corners: bool) -> torch.Tensor:
    """Places in [-1, 1], the last dimension first, and 1, times ``theta``."""
    count, _, *sides = size
    rank = len(sides)

    def places(dim: int) -> torch.Tensor:
        last = sides[dim] - 1
        wide = torch.promote_types(theta.dtype, torch.float32)
        number: torch.Tensor = counted(sides[dim], {"dtype": wide}) * 2 - last
        found: torch.Tensor = number / (_larger(last, 1) if align_corners else sides[dim])
        shape = [-1 if one == dim else 1 for one in range(rank)]
        return found.to(theta.dtype).reshape(shape).expand(*sides)

    base = torch.stack([*map(places, reversed(range(rank))), theta.new_ones(sides)], -1)
    grid = base.reshape(1, prod(sides), rank + 1) @ theta.mT
    return grid.reshape(count, *sides, rank)


def _mean(input: torch.Tensor, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
    """Of complex numbers, the sum by the count."""
    dim, keepdim = options.pop("axis", dim), options.pop("keepdims", keepdim)  # as of numpy
    dtype = options.get("dtype") or input.dtype
    if not _is_dynamic(input) or not dtype.is_complex:
        given = (input,) if dim is None and not keepdim else (input, dim, keepdim)
        return _torch_mean(*given, **options)
    named = [dim] if isinstance(dim, int) else dim
    dims = named or range(input.dim())
    return input.to(dtype).sum([*dims], keepdim) / prod(input.shape[one] for one in dims)


def _fill_diagonal(input: torch.Tensor, fill_value: Any, wrap: bool = False) -> Any:
    """The diagonal of a matrix, or of dimensions of one size, is a view; one that wraps is not."""
    is_even = all(statically_known_true(size == input.shape[0]) for size in input.shape)
    is_view = is_even or (input.dim() == 2 and not wrap)
    if not _is_dynamic(input) or input.dim() < 2:
        return _torch_fill_diagonal(input, fill_value, wrap)
    if not is_view:
        raise TraceError(
            "fill_diagonal_ takes a matrix with dynamic sizes without wrap=True, or a tensor whose "
            "dimensions have one size: leave wrap out, or its dimensions out of the dynamic shapes"
        )
    view = input
    while view.dim() > 1:
        view = view.diagonal()
    view.fill_(fill_value)
    return input


def _interpolate(
    input: torch.Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    **options: Any,
) -> Any:
    """A whole factor of a size gives a size, not the rounding of a float."""
    dims = input.shape[2:]
    factors = (
        scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor] * len(dims)
    )
    is_whole = all(isinstance(one, (int, float)) and one > 0 and one % 1 == 0 for one in factors)
    is_filtered = options.get("antialias", False)  # whose filter follows the factor
    is_given = size is None and is_whole and not is_filtered and len(factors) == len(dims)
    if is_given and _is_dynamic(input):
        size = [n * int(factor) for n, factor in zip(dims, factors, strict=True)]
        scale_factor = recompute_scale_factor = None
    given = size, scale_factor, mode, align_corners, recompute_scale_factor
    return _torch_interpolate(input, *given, **options)


def _nbytes(input: torch.Tensor) -> Any:
    return input.numel() * input.itemsize


OF_ANY_LENGTH: Mapping[_Function, _Function] = {
    **dict.fromkeys((F.max_pool1d, torch.max_pool1d), _max_pool1d),
    **dict.fromkeys((torch.take_along_dim, torch.Tensor.take_along_dim), _take_along_dim),
    **dict.fromkeys((torch.kron, torch.Tensor.kron), _kron),
    **dict.fromkeys((torch.mean, torch.Tensor.mean), _mean),
    torch.vander: _vander,
    torch.linalg.vander: _linalg_vander,
    torch.gradient: _gradient,
    torch.linalg.multi_dot: _multi_dot,
    torch.chain_matmul: _chain_matmul,
    F.affine_grid: _affine_grid,
    F.interpolate: _interpolate,
    _bytes_of.__get__: _nbytes,
    torch.Tensor.fill_diagonal_: _fill_diagonal,
    **PARTS,
    **RANGES,
    **TRANSFORMS,
}
