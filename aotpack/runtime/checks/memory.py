"""Whether an argument has the memory that its shape asks for. Some tensors have none."""

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError
from ..manifest import Signature

LOW_ADDRESS = 1 << 32
"""Addresses below it are looked at: an offset into a storage without memory looks like one."""


def check_memory(
    signature: Signature, values: Sequence[Any], addresses: Sequence[int], sizes: Sequence[int]
) -> None:
    """Refuse tensors that have a shape and no memory: fake ones, and those of freed storages."""
    for tensor, value, address, size in zip(
        signature.inputs, values, addresses, sizes, strict=True
    ):
        if size and address < LOW_ADDRESS and not has_memory(value, address):
            raise ArgumentError(
                f"calling {signature.name}: argument {signature.path_of(tensor)!r} has a shape but "
                "no memory (a fake tensor, or one whose storage was freed or resized); accepted: "
                "tensors with their elements."
            )


def has_memory(value: Any, address: int) -> bool:
    """False for a null address, and for a tensor of torch whose storage is too small."""
    if address == 0 or not hasattr(value, "untyped_storage"):
        return address != 0
    end = (value.storage_offset() + value.numel()) * value.element_size()
    return bool(value.untyped_storage().nbytes() >= end)
