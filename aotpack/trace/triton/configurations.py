"""The configurations of a kernel of triton.autotune: constants, warps and stages of each.

torch has run prune_configs_by and heuristics, and a grid function for each configuration, before a
kernel comes here; it refuses hooks. The order is the user's, or that of a perf_model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aotpack.errors import UnsupportedError, a_type

_UNKNOWN = ("num_ctas", 1), ("maxnreg", None), ("ir_override", None)
OPTIONS = ("num_warps", 4), ("num_stages", 3)  # with Triton's defaults


@dataclass(frozen=True, slots=True)
class Config:
    """One configuration; ``unknown`` names an option that a package cannot keep, if it sets one."""

    values: Mapping[str, Any]
    unknown: str = ""


def configurations(kernel: Any) -> tuple[Any, tuple[Config, ...]]:
    """The jit function, and its configurations, at least one.

    The first is the one that is taken where nothing is measured, so it must be known completely.
    """
    found: tuple[Config, ...] = (Config({}),)
    while not hasattr(kernel, "arg_names") or hasattr(kernel, "configs"):
        if hasattr(kernel, "configs"):
            found = tuple(map(_config, kernel.configs))
        elif not hasattr(kernel, "fn"):
            raise UnsupportedError(f"its kernel is {a_type(kernel)}")
        kernel = kernel.fn
    if found[0].unknown:
        raise UnsupportedError(f"a configuration of its kernel sets {found[0].unknown}")
    return kernel, found


def _config(one: Any) -> Config:
    """A configuration of Triton's."""
    if getattr(one, "pre_hook", None) is not None:
        raise UnsupportedError(
            "a configuration of its kernel has a pre_hook, which runs Python before each launch; "
            "do its work in operators before the launch"
        )
    unknown = [name for name, default in _UNKNOWN if getattr(one, name, default) != default]
    values = {**one.kwargs, **{name: getattr(one, name) for name, _ in OPTIONS}}
    return Config(values, *unknown[:1])
