"""DLPack through its C struct: imports another framework's array, and exports ours."""

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import BY_DLPACK, COMPLEX, DType
from ..errors import ArgumentError

_KNOWN = {**BY_DLPACK, **{dtype.dlpack: dtype for dtype in COMPLEX.values()}}
_NAME = b"dltensor"
_MOST_DIMENSIONS = 64  # numpy's and torch's limit


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
_placeholder = ctypes.create_string_buffer(1)


class _Lent:
    """Keeps ``owner`` alive as the base of a numpy array of a shape, over one byte."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, shape: tuple[int, ...]) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": shape,
            "strides": (0,) * len(shape),
            "data": (ctypes.addressof(_placeholder), False),
        }


class ImportedArray(NamedTuple):
    """The array behind a capsule; valid while the capsule is alive."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    place: tuple[int, int]
    strides: tuple[int, ...] | None  # in elements; None for row-major


def import_capsule(capsule: Any) -> ImportedArray:
    """Read a capsule. Dropping the capsule releases the array to its producer."""
    tensor = _tensor(capsule)
    if not 0 <= tensor.ndim <= _MOST_DIMENSIONS:
        raise ArgumentError(f"its DLPack tensor has {tensor.ndim} dimensions")
    if tensor.ndim and not tensor.shape:
        raise ArgumentError(f"its DLPack tensor of {tensor.ndim} dimensions has no shape")
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    if min(shape, default=0) < 0:
        raise ArgumentError(f"its DLPack tensor has the shape {list(shape)}")
    if not tensor.data and math.prod(shape):
        raise ArgumentError(f"its DLPack tensor of shape {list(shape)} has no memory")
    dtype = _KNOWN.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    return ImportedArray(
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        str(dtype) if dtype else f"DLPack type {tensor.code}:{tensor.bits}x{tensor.lanes}",
        (tensor.device_type, tensor.device_id),
        strides,
    )


def export_capsule(
    owner: Any,
    address: int,
    shape: tuple[int, ...],
    dtype: DType,
    place: tuple[int, int],
    strides: tuple[int, ...] | None = None,
) -> Any:
    """Make a capsule over memory that ``owner`` keeps alive; without strides it is row-major.

    It is numpy's capsule of a placeholder, with the tensor replaced: numpy's deleter is C, which
    may run while an exception is on its way. One in Python would lose that exception.
    """
    capsule = np.asarray(_Lent(owner, shape)).__dlpack__()
    tensor = _tensor(capsule)
    tensor.data, (tensor.device_type, tensor.device_id) = address, place
    (tensor.code, tensor.bits), tensor.lanes = dtype.dlpack, 1
    tensor.byte_offset = 0
    if strides is None or not tensor.strides:  # numpy gives none where they say nothing
        tensor.strides = None
    else:
        for dimension, step in enumerate(strides):
            tensor.strides[dimension] = step
    return capsule


def _tensor(capsule: Any) -> _Tensor:
    try:
        return _Tensor.from_address(_pointer(capsule, _NAME))
    except ValueError:
        raise ArgumentError(
            f"its __dlpack__ gave {type(capsule).__name__}, not a capsule named {_NAME.decode()!r}"
        ) from None
