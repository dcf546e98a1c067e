"""DLPack through its C struct: imports another framework's array, and exports ours."""

import ctypes
from typing import Any, NamedTuple

from ..dtypes import BY_DLPACK, DType

_NAME = b"dltensor"


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


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
# The destructor runs while the capsule is deallocated: pass it as an address, not an object.
_is_named = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_of_dying = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_new_capsule.restype = ctypes.py_object

_exports: dict[int, tuple[Any, ...]] = {}  # keeps exported memory alive, by address of its struct


class ImportedArray(NamedTuple):
    """The array behind a capsule; valid while the capsule is alive."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    place: tuple[int, int]
    contiguous: bool


def import_capsule(capsule: Any) -> ImportedArray:
    """Read a capsule. Dropping the capsule releases the array to its producer."""
    tensor = _Managed.from_address(_pointer(capsule, _NAME)).tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    dtype = BY_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    return ImportedArray(
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        str(dtype) if dtype else f"DLPack type {tensor.code}:{tensor.bits}x{tensor.lanes}",
        (tensor.device_type, tensor.device_id),
        is_contiguous(shape, strides),
    )


def export_capsule(
    owner: Any, address: int, shape: tuple[int, ...], dtype: DType, place: tuple[int, int]
) -> Any:
    """Make a capsule over memory that ``owner`` keeps alive."""
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    managed = _Managed()
    tensor = managed.tensor
    tensor.data, (tensor.device_type, tensor.device_id) = address, place
    tensor.ndim, tensor.shape = len(shape), ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    (tensor.code, tensor.bits), tensor.lanes = dtype.dlpack, 1
    managed.deleter = ctypes.cast(_deleter, ctypes.c_void_p).value
    key = ctypes.addressof(managed)
    _exports[key] = (managed, sizes, owner)
    return _new_capsule(key, _NAME, ctypes.cast(_destructor, ctypes.c_void_p))


def _release(managed: int) -> None:
    _exports.pop(managed, None)


def _destroy(capsule: int) -> None:
    if _is_named(capsule, _NAME):  # a consumer renames the capsule and calls the deleter itself
        _exports.pop(_pointer_of_dying(capsule, _NAME), None)


_deleter = _DELETER(_release)
_destructor = _DESTRUCTOR(_destroy)


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    """True when elements with these strides (in elements) are row-major without gaps."""
    if strides is None or 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
