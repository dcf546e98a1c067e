"""Complex tensors as pairs of reals: a last dimension of size 2 holds both parts.

    view_as_complex(x) -> x;  view_as_real(z) -> z;  mul(z, w) -> pair.mul(z, w)

Calls that move elements stay torch's operators, on a tensor with one more dimension; arithmetic
becomes operators ``pair.*``, whose tensors are all pairs.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from aotpack.errors import UnsupportedError

REALS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
PLACEMENT = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking"})
Args = tuple[Any, ...]

UNCHANGED = frozenset({"aten.view_as_complex.default", "aten.view_as_real.default"})
"""Calls that give another name to the same pairs."""

ARITHMETIC: Mapping[str, str] = {
    "aten.add.Tensor": "pair.add",
    "aten.sub.Tensor": "pair.sub",
    "aten.mul.Tensor": "pair.mul",
    "aten.div.Tensor": "pair.div",
    "aten.neg.default": "pair.neg",
    "aten._conj.default": "pair.conj",
    "aten._conj_physical.default": "pair.conj",
    "aten.conj_physical.default": "pair.conj",
    "aten.abs.default": "pair.abs",
    "aten.angle.default": "pair.angle",
}
CONVERSION = "aten._to_copy.default"
COUNTING = "aten.nonzero.default"
FROM_REALS: Mapping[str, str] = {
    "aten.complex.default": "pair.complex",
    "aten.polar.default": "pair.polar",
}


def _sized(args: Args, rank: int) -> Args:
    """Append the pair's dimension to a shape."""
    return (args[0], (*args[1], 2), *args[2:])


def _with_dim(place: int, default: int = 0, *, more: int = 0) -> Callable[[Args, int], Args]:
    """Adapt a dimension argument at a position: count it from the front."""

    def adapted(args: Args, rank: int) -> Args:
        filled = (*args, *[default] * (place + 1 - len(args)))
        if not rank + more:
            raise UnsupportedError("a dimension of a complex number that has none; reshape it to 1")
        return (*filled[:place], filled[place] % (rank + more), *filled[place + 1 :])

    return adapted


def _swapped(args: Args, rank: int) -> Args:
    return (args[0], args[1] % max(rank, 1), args[2] % max(rank, 1))


def _permuted(args: Args, rank: int) -> Args:
    return (args[0], (*(dim % rank for dim in args[1]), rank))


def _transposed(args: Args, rank: int) -> Args:
    return (args[0], (*reversed(range(rank)), rank))


def _with_dims(args: Args, rank: int) -> Args:
    """A number without dimensions has none of those that are named."""
    return (args[0], tuple(dim % rank for dim in args[1]) if rank else (), *args[2:])


def _with_each(args: Args, rank: int) -> Args:
    return _with_dims((args[0], (args[1],)), rank)


def _squeezed(args: Args, rank: int) -> Args:
    """Every dimension but the pair's may be removed."""
    return (args[0], tuple(range(rank)))


def _rolled(args: Args, rank: int) -> Args:
    """Elements of flat memory move by whole pairs."""
    tensor, shifts, *dims = args
    if not rank:
        return (tensor, (0,), (0,))
    if dims and dims[0]:
        return (tensor, shifts, tuple(dim % rank for dim in dims[0]))
    if not all(isinstance(shift, int) for shift in shifts):
        raise UnsupportedError("a roll of all complex numbers by a size; name the dimensions")
    return (tensor, tuple(2 * shift for shift in shifts))


def _transformed(args: Args, rank: int) -> Args:
    """Of a Fourier transform, the dimensions count from the front."""
    tensor, dims, *rest = args
    return (tensor, tuple(dim % rank for dim in dims), *rest)


def _padded(args: Args, rank: int) -> Args:
    tensor, pad, *value = args
    if any(value):
        raise UnsupportedError("padding of complex numbers with other values than zero")
    return (tensor, (0, 0, *pad))


MOVES: Mapping[str, Callable[[Args, int], Args]] = {
    **dict.fromkeys(
        (
            "aten.view.default",
            "aten.reshape.default",
            "aten._unsafe_view.default",
            "aten.expand.default",
        ),
        _sized,
    ),
    "aten.unsqueeze.default": _with_dim(1, more=1),
    "aten.squeeze.dim": _with_each,
    "aten.squeeze.dims": _with_dims,
    "aten.flip.default": _with_dims,
    "aten.transpose.int": _swapped,
    "aten.permute.default": _permuted,
    "aten.t.default": _transposed,
    "aten.squeeze.default": _squeezed,
    "aten.roll.default": _rolled,
    "aten.slice.Tensor": _with_dim(1),
    "aten.select.int": _with_dim(1),
    "aten.index_select.default": _with_dim(1),
    "aten.cat.default": _with_dim(1),
    "aten.stack.default": _with_dim(1, more=1),
    "aten.index.Tensor": lambda args, rank: args,
    "aten.constant_pad_nd.default": _padded,
    "aten.unfold.default": _with_dim(1),
    "aten._fft_c2c.default": _transformed,
    "aten._fft_r2c.default": _transformed,
    "aten._fft_c2r.default": _transformed,
}

JOINS = frozenset({"aten.cat.default", "aten.stack.default"})
"""Moves whose operands may have several types."""

ON_PAIRS = {
    "aten.t.default": "aten.permute.default",
    "aten.squeeze.default": "aten.squeeze.dims",
    "aten.squeeze.dim": "aten.squeeze.dims",
    "aten.unfold.default": "pair.unfold",
    "aten._fft_c2c.default": "pair.fft_c2c",
    "aten._fft_r2c.default": "pair.fft_r2c",
    "aten._fft_c2r.default": "pair.fft_c2r",
}
"""Operators on all dimensions of a tensor, and those that know the pair's."""


def is_complex(node: Any) -> bool:
    """True for a node that yields a complex tensor."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dtype in REALS


def touches_complex(node: fx.Node) -> bool:
    """True for a call that takes or yields complex tensors."""
    return is_complex(node) or any(map(is_complex, node.all_input_nodes))


def moves(node: fx.Node) -> bool:
    """True for a call that moves elements of one type."""
    op = str(node.target)
    if op not in JOINS:
        return op in MOVES
    joined: Any = node.args[0]
    return all(one.meta["val"].dtype is node.meta["val"].dtype for one in joined)


def moved_arguments(node: fx.Node) -> Args:
    """The arguments of a call that moves elements, for pairs."""
    rank = next(iter(node.all_input_nodes)).meta["val"].dim()
    return MOVES[str(node.target)](tuple(node.args), rank)


def converted(node: fx.Node) -> str:
    """The operator on pairs for a conversion from, to or between complex types."""
    options = {key for key in node.kwargs if key != "dtype"} - PLACEMENT
    if options:
        raise UnsupportedError(f"complex numbers with {', '.join(sorted(options))}")
    to = node.meta["val"].dtype
    if to in REALS:
        return "pair.convert" if is_complex(node.args[0]) else "pair.of_real"
    if not to.is_floating_point:
        raise UnsupportedError(
            f"complex numbers are converted to floats alone, not to {to}: compare their parts"
        )
    return "pair.real"


def real_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A weight as it is packaged: a complex one as pairs."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.dtype in REALS else tensor
