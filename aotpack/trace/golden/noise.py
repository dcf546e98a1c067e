"""The reference once more, with the rounding of each operator drawn anew.

Whoever computes a model rounds each result to its type, or keeps it wider, and sums in an order of
its own. So a result is moved by up to ``STRENGTH`` units of its type, and the operands of sums by
those of float32. Two runs with opposite signs make a pair: what a rounding can turn, one of both
turns. Results that need no rounding stay as they are, and equal numbers move alike, so that ties
remain ties.
"""

import math
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.trace.golden.reference import Eager, Reference, decides, in_order_of_results
from aotpack.trace.operators.control_flow.control import Turns
from aotpack.trace.triton.triton_kernels import TritonPort

_LARGE = 2**20  # elements; of a product's factors the smaller one is enough
STRENGTH = 8  # units of rounding; a true result is within one or two of them
_ODD = (0x9E3779B97F4A7C15 - 2**64, 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
_CHOOSING = frozenset(
    """abs alias amax amin aminmax arange argmax argmin argsort as_strided bitwise_and bitwise_not
    bitwise_or bitwise_xor broadcast_to cat ceil clamp clamp_max clamp_min clone constant_pad_nd
    contiguous copy copysign cummax cummin detach diag_embed diagonal_scatter dropout embedding
    empty eq expand fill flip floor fmax fmin full full_like gather ge gt hardtanh heaviside index
    index_copy index_fill index_put index_select isfinite isinf isnan kthvalue le
    lift_fresh_copy logical_and logical_not logical_or logical_xor lt masked_fill masked_scatter
    masked_select max max_pool1d max_pool2d max_pool2d_with_indices max_pool3d
    max_pool3d_with_indices maximum median min minimum mode msort nan_to_num nanmedian narrow_copy
    ne neg new_empty new_full new_ones new_zeros one_hot ones ones_like permute_copy pixel_shuffle
    pixel_unshuffle put reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 repeat
    repeat_interleave replication_pad1d replication_pad2d replication_pad3d roll rot90 round
    scalar_tensor scatter searchsorted select_scatter sgn sign signbit slice_scatter sort stack
    take take_along_dim threshold topk tril triu trunc unfold_copy where zeros zeros_like
    _unsafe_view _unsafe_index _unsafe_index_put _assert_tensor_metadata""".split()
)
"""Operators that choose, move, compare or cast numbers: what they return needs no rounding."""

_SUMMING = frozenset(
    """addbmm addmm addmv addr avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d baddbmm bmm
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution cumsum
    dot einsum index_add linalg_vector_norm linear logcumsumexp logsumexp matmul mean mm mv nansum
    native_group_norm native_layer_norm _native_batch_norm_legit_no_training batch_norm group_norm
    layer_norm rms_norm norm scaled_dot_product_attention scatter_add scatter_reduce std std_mean
    sum trapezoid var var_mean _fft_c2c _fft_c2r _fft_r2c _grouped_mm _scaled_mm""".split()
)
"""Operators that sum: their operands move too, since sums may cancel."""

_AVERAGING = frozenset(
    """mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d""".split()
)
_LINEAR = _AVERAGING | frozenset(
    """addbmm addmm addmv addr baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d convolution cumsum dot einsum index_add linear matmul mm mv nansum scatter_add
    sum trapezoid _grouped_mm""".split()
)
"""Those whose terms are products of operands: sums of absolute terms bound partial sums."""


class Noisy(Reference):
    """One of several runs; ``sign`` is 1 or -1."""

    def __init__(
        self, module: fx.GraphModule, triton: TritonPort | None, turns: Turns, run: int, sign: int
    ) -> None:
        super().__init__(module, triton, turns)
        self.number, self.sign = run, sign
        self.place = 0  # of an operator in the run

    def inner(self, module: fx.GraphModule) -> Reference:
        return Noisy(module, self.triton, self.turns, self.number, self.sign)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """See Reference.run; each iteration of a loop draws as the first."""
        self.place = 0
        return super().run(*args, **kwargs)

    def computed(self, n: fx.Node) -> Any:
        self.place += 1
        result = super().computed(n)
        name = _rounding_name(n)
        if name is None:
            return result
        if name in _SUMMING:
            result = self._summed(n, result)
        own = n.meta.get("val")
        if not _is_alike(result, own):
            return result
        return pytree.tree_map(partial(self._rounded, is_decided=_is_decided(n)), result, own)

    def _summed(self, n: fx.Node, result: Any) -> Any:
        """The result of moved operands, where float32 does not hold the sum exactly."""
        kept = {node: self.env[node] for node in n.all_input_nodes if _is_float(self.env[node])}
        if not kept:
            return result
        unit = torch.finfo(_sum_type(n)).eps / 2
        moved = [node for node, value in kept.items() if value.numel() <= _LARGE]
        moved = moved or [min(kept, key=lambda node: kept[node].numel())]
        other = self._with_operands(n, {node: self.moved(kept[node], unit) for node in moved})

        def chosen(sums: Any, moved: Any) -> Any:
            return (
                torch.where(self._is_exact(n, kept, sums), sums, moved) if _is_float(sums) else sums
            )

        return pytree.tree_map(chosen, result, other)

    def _is_exact(
        self, n: fx.Node, operands: dict[fx.Node, torch.Tensor], sums: torch.Tensor
    ) -> torch.Tensor:
        """Where float32 holds a sum, and each partial sum in whatever order.

        All terms are multiples of the product of their operands' units; float32 holds those up to
        2**24 of it. Partial sums are at most the sum of absolute terms.
        """
        held = sums.to(torch.complex64 if sums.is_complex() else torch.float32) == sums
        name = _rounding_name(n)
        if name not in _LINEAR or sums.is_complex() or not bool(held.any()):
            return held
        unit = math.prod(min(_unit_of(value), 1.0) for value in operands.values())
        if name in _AVERAGING:
            unit /= max(value.numel() for value in operands.values())
        largest = self._with_operands(n, {one: value.abs() for one, value in operands.items()})
        return torch.logical_and(held, largest <= 2**24 * unit)

    def _with_operands(self, n: fx.Node, operands: dict[fx.Node, torch.Tensor]) -> Any:
        """The operator's result where some operands are others."""
        kept = {node: self.env[node] for node in operands}
        self.env.update(operands)
        try:
            return super().computed(n)
        finally:
            self.env.update(kept)

    def moved(self, value: torch.Tensor, unit: float) -> torch.Tensor:
        """The numbers moved by up to ``STRENGTH`` units, each part of a complex one alone."""
        if value.is_complex():
            parts = torch.view_as_real(value.to(torch.complex128).resolve_conj())
            return torch.view_as_complex(self.moved(parts, unit))
        wide = value.double()
        return wide + self._noise(wide) * unit

    def _rounded(self, value: Any, own: Any, *, is_decided: bool) -> Any:
        """A result moved by units of its own type, where that type does not hold it exactly.

        What a decision reads is never kept wider than its type: before it is rounded, float32 is
        as far as two ways to compute it differ.
        """
        if not _is_float(value) or not _is_float(own):
            return value
        unit = torch.finfo(own.dtype).eps / 2
        unit = min(unit, torch.finfo(torch.float32).eps / 2) if is_decided else unit
        held = value.to(own.dtype).to(value.dtype)  # 8-bit floats do not compare
        return torch.where(held == value, value, self.moved(value, unit))

    def _noise(self, value: torch.Tensor) -> torch.Tensor:
        """Up to ``STRENGTH`` times each number, drawn from its bits, the run and the operator."""
        bits = value.contiguous().view(torch.int64)
        bits = (bits ^ (self.number * 1000003 + self.place)) * _ODD[0]
        bits = (bits ^ (bits >> 29)) * _ODD[1]
        bits = (bits ^ (bits >> 32)) * _ODD[2]
        share = (bits >> 11).double() * 2.0**-52  # in [-1, 1)
        return value.nan_to_num(0.0, 0.0, 0.0) * share * (self.sign * STRENGTH)


class OwnNoisy(Eager):
    """A run in the model's own types, with other roundings; for models too large for float64."""

    def __init__(
        self, module: fx.GraphModule, triton: TritonPort | None, turns: Turns, run: int, sign: int
    ) -> None:
        super().__init__(module, triton, turns)
        self.noise = Noisy(module, triton, turns, run, sign)

    def computed(self, n: fx.Node) -> Any:
        self.noise.place += 1
        result, own = super().computed(n), n.meta.get("val")
        if _rounding_name(n) is None or not _is_alike(result, own):
            return result
        return pytree.tree_map(self._rounded, result)

    def _rounded(self, value: Any) -> Any:
        if not _is_float(value):
            return value
        unit = torch.finfo(value.dtype).eps / 2
        return self.noise.moved(value, unit).to(value.dtype)


def rounded_results(program: ExportedProgram) -> list[bool]:
    """For each result, in the order of ``results_of``, whether it depends on a rounding."""
    rounded: set[fx.Node] = set()
    for node in program.graph.nodes:
        is_own = node.op == "call_function" and _rounding_name(node) and _yields_floats(node)
        has_parts = any(one.op == "get_attr" for one in node.all_input_nodes)
        if is_own or has_parts or any(one in rounded for one in node.all_input_nodes):
            rounded.add(node)
    (results,) = program.graph.output_node().args
    return [one in rounded for one in in_order_of_results(program, results)]


def _yields_floats(node: fx.Node) -> bool:
    return any(map(_is_float, pytree.tree_leaves(node.meta.get("val"))))


def _rounding_name(n: fx.Node) -> str | None:
    """The name of an operator that rounds what it returns."""
    target = n.target
    if not isinstance(target, torch._ops.OpOverload) or target.is_view:
        return None
    name = target._schema.name.partition("::")[2]
    return None if name in _CHOOSING else name


def _is_decided(n: fx.Node) -> bool:
    """True if a decision reads the result."""
    return any(map(decides, n.users))


def _unit_of(value: torch.Tensor) -> float:
    """The largest power of two of which all finite numbers are multiples; infinite for zeros."""
    mantissas, exponents = torch.frexp(value.double().nan_to_num(0.0, 0.0, 0.0))
    bits = (mantissas * 2.0**53).long()
    lowest = torch.ldexp((bits & -bits).double(), exponents - 53)
    return float(torch.where(bits == 0, float("inf"), lowest).min()) if bits.numel() else math.inf


def _sum_type(n: fx.Node) -> torch.dtype:
    """The type that sums are formed in."""
    results = pytree.tree_leaves(n.meta.get("val"))
    is_wide = any(getattr(one, "dtype", None) is torch.float64 for one in results)
    return torch.float64 if is_wide else torch.float32


def _is_float(value: Any) -> bool:
    is_tensor = isinstance(value, torch.Tensor)
    return is_tensor and (value.is_floating_point() or value.is_complex())


def _is_alike(result: Any, own: Any) -> bool:
    return bool(pytree.tree_structure(result) == pytree.tree_structure(own))
