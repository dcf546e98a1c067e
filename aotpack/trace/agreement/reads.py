"""Which tensors a call reads: the memories whose values torch's functions are given."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from aotpack.trace.agreement.attributes import storage_of, tensors_in

_VALUES = frozenset(
    "__setitem__ __bool__ __int__ __float__ __index__ __contains__ item tolist equal".split()
)


class Reads(TorchFunctionMode):
    """Inside the block, the memories whose values functions are given are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: set[int] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if _reads(getattr(func, "__name__", ""), result):
            given = pytree.tree_leaves((args, kwargs))
            self.storages.update(storage_of(x) for x in given if isinstance(x, torch.Tensor))
        return result


def _reads(name: str, result: Any) -> bool:
    """False for functions that tell or take shapes and types alone."""
    if name.startswith("new_") or name.endswith("_like"):
        return False
    return name in _VALUES or any(True for _ in tensors_in(result))
