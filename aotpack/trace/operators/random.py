"""Random operators become functions of an input ``seed``: a counter-based generator (Philox).

Such a model has an additional keyword, a 0-d int64 tensor. Equal seeds give equal numbers; they
differ from torch's but have the same distributions. The n-th draw of a call takes the n-th stream
of Philox bits (``runtime/golden/philox.py``), whatever the sizes are.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode

from aotpack.errors import TraceError, UnsupportedError
from aotpack.runtime.golden.philox import philox

Example = tuple[tuple[Any, ...], dict[str, Any]]
SEED = "seed"
EXAMPLE_SEED = 0
_LONGEST_STREAM = 2**40
_MANTISSA = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}
_LIBRARY: Any = torch.library.Library("aotpack", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("philox(Tensor seed, int stream, SymInt[] size) -> Tensor")


@torch.library.impl(_LIBRARY, "philox", "CompositeExplicitAutograd")
def _bits(seed: torch.Tensor, stream: int, size: Sequence[int]) -> torch.Tensor:
    places = np.arange(math.prod(size), dtype=np.int64) + stream * _LONGEST_STREAM
    return torch.from_numpy(philox(seed.numpy(), places)).reshape(list(size))


@torch.library.register_fake("aotpack::philox", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _bits_shape(seed: torch.Tensor, stream: int, size: Sequence[int]) -> torch.Tensor:
    return seed.new_empty(list(size))


def draws(program: ExportedProgram) -> tuple[str, ...]:
    """The live operators that use torch's generator, each once."""
    needed = {program.graph.output_node()}
    for node in reversed(program.graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    found = [
        str(node.target)
        for node in program.graph.nodes
        if node in needed
        and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        and not _draws_nothing(node)
    ]
    return tuple(dict.fromkeys(found))


def is_random(program: ExportedProgram) -> bool:
    """True if an operator uses torch's generator, in a branch, in a loop or in attention too.

    Lowering refuses those: two runs of such a program differ.
    """
    nodes = [
        node
        for part in program.graph_module.modules()
        if isinstance(part, torch.fx.GraphModule)
        for node in part.graph.nodes
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    ]
    return any(_arguments(node).get("dropout_p") or not _draws_nothing(node) for node in nodes)


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    """The arguments of a call by name, with defaults."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else []
    given = {a.name: a.default_value for a in schema.arguments} if schema else {}
    return given | dict(zip(names, node.args, strict=False)) | node.kwargs


def _draws_nothing(node: torch.fx.Node) -> bool:
    """True for disabled dropout, and for attention: lowering refuses attention with dropout."""
    given = _arguments(node)
    return "dropout_p" in given or False in (given.get("train"), given.get("training"))


def with_example_seed(example: Example) -> Example:
    """The example inputs with a seed."""
    return example[0], {**example[1], SEED: torch.tensor(EXAMPLE_SEED)}


def seeded(module: nn.Module, name: str) -> nn.Module:
    """The module (a copy of the user's) with a forward that takes the seed."""
    forward = module.forward
    parameters = inspect.signature(forward).parameters
    if SEED in parameters:
        raise TraceError(
            f"tracing {name}: the model draws random numbers, for which the package gets an input "
            f"called {SEED!r}; forward has one already. Rename it."
        )

    @functools.wraps(forward)
    def with_seed(*args: Any, seed: torch.Tensor, **kwargs: Any) -> Any:
        with _Draws(seed):
            return forward(*args, **kwargs)

    last = [p for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    others = [p for p in parameters.values() if p not in last]
    own = inspect.Parameter(SEED, inspect.Parameter.KEYWORD_ONLY)
    with_seed.__signature__ = inspect.Signature([*others, own, *last])  # type: ignore[attr-defined]
    module.forward = with_seed
    return module


def check_drawn(program: ExportedProgram, name: str) -> None:
    """Refuse operators that still use torch's generator."""
    left = draws(program)
    if left:
        raise UnsupportedError(
            f"tracing {name}: {', '.join(left)} cannot be drawn from a seed; accepted are "
            f"{', '.join(sorted(_NAMES))}"
        )


class _Draws(TorchFunctionMode):
    """Inside the block, torch's random functions use the streams of a seed."""

    def __init__(self, seed: torch.Tensor) -> None:
        super().__init__()
        self.seed = seed
        self.count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        handler = _HANDLERS.get(func)
        if handler is None or given.get("out") is not None:
            return func(*args, **given)
        return handler(self, *args, **given)

    def bits(self, size: Sequence[Any]) -> torch.Tensor:
        """The next stream: 64 random bits for each element."""
        self.count += 1
        bits: torch.Tensor = torch.ops.aotpack.philox(self.seed, self.count - 1, list(size))
        return bits

    def uniform(self, size: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
        """Uniform in [0, 1), with the bits of the type's mantissa."""
        places = _MANTISSA[dtype]
        whole = (self.bits(size) >> 8) & ((1 << places) - 1)
        return whole.to(_wide(dtype)).mul(2.0**-places).to(dtype)

    def normal(self, size: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
        """Mean 0, deviation 1 (Box and Muller)."""
        wide = _wide(dtype)
        if wide is torch.float64:
            radius, turn = 1 - self.uniform(size, wide), self.uniform(size, wide)
        else:
            bits = self.bits(size)
            mask, unit = (1 << 24) - 1, 2.0**-24
            radius = ((bits & mask) + 1).to(wide) * unit
            turn = ((bits >> 32) & mask).to(wide) * unit
        return ((radius.log() * -2).sqrt() * (turn * (2 * math.pi)).cos()).to(dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float64 else torch.float32


# --- torch's functions --------------------------------------------------------------------------


def _float_type(dtype: torch.dtype | None) -> torch.dtype:
    return torch.get_default_dtype() if dtype is None else dtype


def _size(size: tuple[Any, ...]) -> Sequence[Any]:
    return size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _rand(d: _Draws, *size: Any, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return d.uniform(_size(size or (_.get("size"),)), _float_type(dtype))


def _randn(d: _Draws, *size: Any, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return d.normal(_size(size or (_.get("size"),)), _float_type(dtype))


def _rand_like(d: _Draws, x: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return d.uniform(x.shape, dtype or x.dtype)


def _randn_like(d: _Draws, x: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return d.normal(x.shape, dtype or x.dtype)


def _integers(d: _Draws, low: int, high: int, size: Any, dtype: torch.dtype) -> torch.Tensor:
    """In [low, high): 63 bits modulo the range; the bias is at most 2**-32."""
    if not 0 < high - low <= 2**31:
        raise ValueError(f"a range of 1 to 2**31 integers is accepted, not [{low}, {high})")
    return ((d.bits(size) & (2**63 - 1)) % (high - low) + low).to(dtype)


def _randint(
    d: _Draws, *args: Any, low: int = 0, high: Any = None, size: Any = None, **options: Any
) -> torch.Tensor:
    numbers = [arg for arg in args if not isinstance(arg, (tuple, list))]
    size = next((arg for arg in args if isinstance(arg, (tuple, list))), size)
    high = numbers[-1] if numbers else high
    low = numbers[0] if len(numbers) == 2 else low
    return _integers(d, low, high, size, options.get("dtype") or torch.int64)


def _randint_like(
    d: _Draws, x: torch.Tensor, *args: Any, low: int = 0, high: Any = None, **options: Any
) -> torch.Tensor:
    high = args[-1] if args else high
    low = args[0] if len(args) == 2 else low
    return _integers(d, low, high, x.shape, options.get("dtype") or x.dtype)


def _bernoulli(d: _Draws, x: torch.Tensor, p: Any = None, **_: Any) -> torch.Tensor:
    chance = x if p is None else p
    return (d.uniform(x.shape, torch.float32) < chance).to(x.dtype)


def _bernoulli_(d: _Draws, x: torch.Tensor, p: Any = 0.5, **_: Any) -> torch.Tensor:
    return x.copy_(d.uniform(x.shape, torch.float32) < p)


def _uniform_(d: _Draws, x: torch.Tensor, *ends: float, **named: Any) -> torch.Tensor:
    low, high = [*ends, *(0.0, 1.0)[len(ends) :]]
    low, high = named.get("from", low), named.get("to", high)
    return x.copy_(d.uniform(x.shape, x.dtype) * (high - low) + low)


def _normal_(d: _Draws, x: torch.Tensor, mean: float = 0, std: float = 1, **_: Any) -> Any:
    return x.copy_(d.normal(x.shape, x.dtype) * std + mean)


def _exponential_(d: _Draws, x: torch.Tensor, lambd: float = 1, **_: Any) -> torch.Tensor:
    return x.copy_((1 - d.uniform(x.shape, _wide(x.dtype))).log() / -lambd)


def _normal(
    d: _Draws, mean: Any = 0.0, std: Any = 1.0, size: Any = None, **options: Any
) -> torch.Tensor:
    tensors = [part for part in (mean, std) if isinstance(part, torch.Tensor)]
    shape = (mean + std).shape if size is None else size
    dtype = tensors[0].dtype if tensors else _float_type(options.get("dtype"))
    drawn: torch.Tensor = d.normal(shape, dtype) * std + mean
    return drawn


def _randperm(d: _Draws, n: int, **options: Any) -> torch.Tensor:
    order = torch.argsort(d.bits((n,)), stable=True)
    return order.to(options.get("dtype") or torch.int64)


def _dropout(
    d: _Draws, x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    if not training or p == 0:
        return x
    kept = d.uniform(x.shape, torch.float32) >= p
    dropped = torch.where(kept, x * (1 / (1 - p)) if p < 1 else x, torch.zeros_like(x))
    return x.copy_(dropped) if inplace else dropped


def _multinomial(
    d: _Draws, probabilities: torch.Tensor, count: int, replacement: bool = False, **_: Any
) -> torch.Tensor:
    """Without replacement: top-k of probability over exponential numbers (exponential race)."""
    x = probabilities
    if replacement and count > 1:
        sums = x.cumsum(-1)
        place = d.uniform((*x.shape[:-1], count), torch.float32) * sums[..., -1:]
        return torch.searchsorted(sums, place.to(sums.dtype), right=True).clamp(max=x.shape[-1] - 1)
    race = x / -(1 - d.uniform(x.shape, _wide(x.dtype))).log().clamp(max=-(2.0**-30))
    return race.topk(count).indices if count > 1 else race.argmax(-1, keepdim=True)


def _gumbel_softmax(
    d: _Draws,
    logits: torch.Tensor,
    tau: float = 1,
    hard: bool = False,
    eps: float = 0,
    dim: int = -1,
) -> torch.Tensor:
    """Softmax of the logits minus the logarithms of exponential numbers."""
    drawn = -(1 - d.uniform(logits.shape, _wide(logits.dtype))).log().clamp(max=-(2.0**-30))
    soft = ((logits - drawn.log()) / tau).softmax(dim).to(logits.dtype)
    chosen = soft.argmax(dim, keepdim=True)
    return torch.zeros_like(soft).scatter(dim, chosen, 1.0) if hard else soft


_TENSOR = torch.Tensor
_HANDLERS: dict[Any, Callable[..., Any]] = {
    torch.rand: _rand,
    torch.randn: _randn,
    torch.rand_like: _rand_like,
    torch.randn_like: _randn_like,
    torch.randint: _randint,
    torch.randint_like: _randint_like,
    torch.bernoulli: _bernoulli,
    _TENSOR.bernoulli: _bernoulli,
    _TENSOR.bernoulli_: _bernoulli_,
    _TENSOR.uniform_: _uniform_,
    _TENSOR.normal_: _normal_,
    _TENSOR.exponential_: _exponential_,
    torch.normal: _normal,
    torch.randperm: _randperm,
    torch.dropout: _dropout,
    nn.functional.dropout: _dropout,
    nn.functional.gumbel_softmax: _gumbel_softmax,
    torch.multinomial: _multinomial,
    _TENSOR.multinomial: _multinomial,
}
_NAMES = {function.__name__ for function in _HANDLERS}
