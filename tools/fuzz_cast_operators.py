"""The operators of ``tools/fuzz_casts.py``: their texts, and what they compute in wide types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)

Compute = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its text, what it computes in wide types, and the type of its result.

    ``rounds`` is True for one that takes numbers of its operands' types, whoever made them.
    ``is_kept`` is True for one whose 16-bit result may be kept wider. ``gives`` yields None for
    operands that torch refuses.
    """

    text: str
    compute: Compute
    takes: tuple[str, ...]  # "float", "int" or "bool" for each operand
    gives: Callable[..., torch.dtype | None]
    rounds: bool = False
    is_kept: bool = False


def _common(*dtypes: torch.dtype) -> torch.dtype:
    first, *others = dtypes
    for other in others:
        first = torch.promote_types(first, other)
    return first


def _equal(one: torch.dtype, other: torch.dtype) -> torch.dtype | None:
    return one if one is other else None


def _always(dtype: torch.dtype) -> Callable[..., torch.dtype]:
    return lambda *_: dtype


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """The type that numbers of a type are computed in."""
    return F32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype


def _arithmetic() -> Iterator[Operator]:
    floats: dict[str, Compute] = {
        "{0} + {1}": torch.add,
        "{0} - {1}": torch.sub,
        "{0} * {1}": torch.mul,
        "torch.maximum({0}, {1})": torch.maximum,
        "torch.minimum({0}, {1})": torch.minimum,
        "-{0}": torch.neg,
        "{0}.abs()": torch.abs,
        "{0}.relu()": torch.relu,
        "{0} * 0.3125": lambda x: x * 0.3125,
        "{0} + 1.75": lambda x: x + 1.75,
        "{0}.flip(0)": lambda x: x.flip(0),
        "{0}.roll(1, 1)": lambda x: x.roll(1, 1),
        "{0}[:1].expand(4, 6)": lambda x: x[:1].expand(4, 6),
        "{0}.amax(1, True).expand(4, 6)": lambda x: x.amax(1, True).expand(4, 6),
        "{0}.amin(0, True).expand(4, 6)": lambda x: x.amin(0, True).expand(4, 6),
    }
    for text, compute in floats.items():
        yield Operator(text, compute, ("float",) * (1 + ("{1}" in text)), _common, is_kept=True)
    choice = "torch.where({0}, {1}, {2})"
    given = ("bool", "float", "float")
    yield Operator(choice, torch.where, given, lambda _, a, b: _common(a, b), is_kept=True)
    gathered = "{0}.gather(1, {1}.clamp(0, 5).long())"
    yield Operator(gathered, _gathered, ("float", "int"), lambda x, _: x, is_kept=True)
    yield from _sums()
    integers: dict[str, Compute] = {
        "{0} + {1}": torch.add,
        "{0} - {1}": torch.sub,
        "{0}.bitwise_and({1})": torch.bitwise_and,
    }
    for text, compute in integers.items():
        yield Operator(text, compute, ("int", "int"), _common)
    counted = "{0}.sum(1, True).expand(4, 6)"
    yield Operator(counted, _counted, ("bool",), _always(torch.int64))


def _sums() -> Iterator[Operator]:
    """Of small integers, so that no sum is rounded before the result is."""
    total = "{0}.round().clamp(-99, 99).sum(1, True).expand(4, 6)"
    yield Operator(total, _total, ("float",), _common, rounds=True, is_kept=True)
    product = "({0}.round().clamp(-9, 9).t() @ {1}.round().clamp(-9, 9))[:4]"
    yield Operator(product, _product, ("float", "float"), _equal, rounds=True, is_kept=True)


def _conversions() -> Iterator[Operator]:
    for dtype in (F16, BF16, F32, F64):
        for kind in ("float", "float", "int", "bool"):
            yield Operator(f"{{0}}.to({dtype})", partial(_to, dtype), (kind,), _always(dtype))
    yield Operator("{0}.half()", partial(_to, F16), ("float",), _always(F16))
    yield Operator("{0}.bfloat16()", partial(_to, BF16), ("float",), _always(BF16))
    for dtype in FLOAT8:
        text = f"{{0}}.clamp(-99, 99).to({dtype}).float()"
        yield Operator(text, partial(_to_float8, dtype), ("float",), _always(F32))


def _decisions() -> Iterator[Operator]:
    for sign, name in {"==": "eq", "!=": "ne", "<": "lt", ">=": "ge"}.items():
        compare = getattr(torch, name)
        yield _decision(f"{{0}} {sign} {{1}}", compare, torch.bool, operands=2)
        yield _decision(f"{{0}} {sign} 1.0", partial(_with_one, compare), torch.bool)
    for name in ("floor", "ceil", "trunc", "round", "sign"):
        yield _decision(f"{{0}}.{name}()", getattr(torch, name))
    for name in ("isinf", "isfinite", "logical_not"):
        yield _decision(f"{{0}}.{name}()", getattr(torch, name), torch.bool)
    for name in ("argmax", "argmin"):
        place = partial(_place, getattr(torch, name))
        yield _decision(f"{{0}}.{name}(1, True).expand(4, 6)", place, torch.int64)
    for number, dtype in ((0, None), (1, torch.int64)):
        for call, compute in _CHOICES.items():
            text = f"{{0}}.{call}[{number}].expand(4, 6)"
            yield _decision(text, partial(_chosen, compute, number), dtype)
    yield _decision("{0}.remainder(1.5)", lambda x: x.remainder(1.5), is_kept=True)
    yield _decision(
        'torch.div({0}, 0.75, rounding_mode="floor")',
        lambda x: torch.div(x, 0.75, rounding_mode="floor"),
        is_kept=True,
    )
    yield _decision("{0}.count_nonzero(1)[:, None].expand(4, 6)", _nonzero, torch.int64)
    yield _decision("{0}.all(1, True).expand(4, 6)", _all, torch.bool)
    for dtype in (torch.int32, torch.int64, torch.bool):
        yield _decision(f"{{0}}.to({dtype})", partial(_to, dtype), dtype)


_CHOICES: dict[str, Compute] = {
    "max(0, True)": lambda x: x.max(0, True),
    "min(1, True)": lambda x: x.min(1, True),
    "cummax(1)": lambda x: x.cummax(1),
    "sort(dim=1, stable=True)": lambda x: x.sort(dim=1, stable=True),
    "sort(dim=0, stable=True, descending=True)": (
        lambda x: x.sort(dim=0, stable=True, descending=True)
    ),
}


def _decision(
    text: str,
    compute: Compute,
    dtype: torch.dtype | None = None,
    *,
    operands: int = 1,
    is_kept: bool = False,
) -> Operator:
    gives = _common if dtype is None else _always(dtype)
    given = ("float",) * operands
    return Operator(text, compute, given, gives, rounds=True, is_kept=is_kept)


def _nonzero(x: torch.Tensor) -> torch.Tensor:
    return x.count_nonzero(1)[:, None].expand(4, 6)


def _all(x: torch.Tensor) -> torch.Tensor:
    return x.all(1, True).expand(4, 6)


def _total(x: torch.Tensor) -> torch.Tensor:
    return x.round().clamp(-99, 99).sum(1, True).expand(4, 6)


def _product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x.round().clamp(-9, 9).t() @ y.round().clamp(-9, 9))[:4]


def _gathered(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.gather(1, i.clamp(0, 5).long())


def _counted(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1, True).expand(4, 6)


def _with_one(compare: Compute, x: torch.Tensor) -> torch.Tensor:
    return compare(x, 1.0)


def _place(find: Compute, x: torch.Tensor) -> torch.Tensor:
    return find(x, 1, True).expand(4, 6)


def _chosen(choose: Compute, number: int, x: torch.Tensor) -> torch.Tensor:
    return choose(x)[number].expand(4, 6)


def _to(dtype: torch.dtype, x: torch.Tensor) -> torch.Tensor:
    return x.to(dtype).to(wide_type(dtype))


def _to_float8(dtype: torch.dtype, x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-99, 99).to(dtype).float()


CONVERSIONS = tuple(_conversions())
OPERATORS = (*_arithmetic(), *CONVERSIONS, *CONVERSIONS, *_decisions())
