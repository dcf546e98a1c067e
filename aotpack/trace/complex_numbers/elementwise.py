"""Operators of complex numbers by elements: a table of formulas, and comparisons."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from aotpack.trace.complex_numbers import exponentials, inverses, roots
from aotpack.trace.complex_numbers.parts import both, like, of_pairs, pairs_of

Formula = Callable[..., Any]


def _added(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x + alpha * y


def _subtracted(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x - alpha * y


def _multiplied(x: Any, y: Any) -> Tensor:
    ours, theirs = both(x, y)
    return ours * theirs


def _divided(x: Any, y: Any) -> Tensor:
    ours, theirs = both(x, y)
    return ours / theirs


def _equal(x: Tensor, y: Any) -> Tensor:
    ours, theirs = both(x, y)
    return (ours.real == theirs.real) & (ours.imag == theirs.imag)


def _unequal(x: Tensor, y: Any) -> Tensor:
    return ~_equal(x, y)


def _where(condition: Tensor, x: Any, y: Any) -> Tensor:
    ours, theirs = both(x, y)
    return of_pairs(torch.where(condition.unsqueeze(-1), pairs_of(ours), pairs_of(theirs)))


def _masked(z: Tensor, mask: Tensor, value: Any) -> Tensor:
    return _where(mask, like(value, z), z)


def _all_parts(test: Formula, join: Formula) -> Formula:
    return lambda z: join(test(z.real), test(z.imag))


ELEMENTWISE: Mapping[str, Formula] = {
    "aten.exp.default": exponentials.exp,
    "aten.expm1.default": exponentials.expm1,
    "aten.sin.default": exponentials.sin,
    "aten.cos.default": exponentials.cos,
    "aten.sinh.default": exponentials.sinh,
    "aten.cosh.default": exponentials.cosh,
    "aten.tan.default": exponentials.tan,
    "aten.tanh.default": exponentials.tanh,
    "aten.sigmoid.default": exponentials.sigmoid,
    "aten.log.default": roots.log,
    "aten.log1p.default": roots.log1p,
    "aten.sqrt.default": roots.sqrt,
    "aten.rsqrt.default": roots.rsqrt,
    "aten.reciprocal.default": roots.reciprocal,
    "aten.square.default": roots.square,
    "aten.sgn.default": roots.sgn,
    "aten.asin.default": inverses.asin,
    "aten.acos.default": inverses.acos,
    "aten.atan.default": inverses.atan,
    "aten.asinh.default": inverses.asinh,
    "aten.acosh.default": inverses.acosh,
    "aten.atanh.default": inverses.atanh,
    "aten.log2.default": roots.log_of(2.0),
    "aten.log10.default": roots.log_of(10.0),
    "aten.pow.Tensor_Scalar": roots.power,
    "aten.pow.Tensor_Tensor": roots.power,
    "aten.pow.Scalar": roots.power,
    "aten.add.Tensor": _added,
    "aten.add.Scalar": _added,
    "aten.sub.Tensor": _subtracted,
    "aten.sub.Scalar": _subtracted,
    "aten.mul.Scalar": _multiplied,
    "aten.div.Scalar": _divided,
    "aten.eq.Tensor": _equal,
    "aten.eq.Scalar": _equal,
    "aten.ne.Tensor": _unequal,
    "aten.ne.Scalar": _unequal,
    "aten.where.self": _where,
    "aten.where.ScalarOther": _where,
    "aten.where.ScalarSelf": _where,
    "aten.masked_fill.Scalar": _masked,
    "aten.masked_fill.Tensor": _masked,
    "aten.isnan.default": _all_parts(torch.isnan, torch.logical_or),
    "aten.isinf.default": _all_parts(torch.isinf, torch.logical_or),
    "aten.isfinite.default": _all_parts(torch.isfinite, torch.logical_and),
}
