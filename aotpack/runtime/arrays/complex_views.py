"""Complex arguments and results: kernels read and write them as pairs of reals, in one memory.

A pair is the last dimension, of size 2. Arguments are viewed, not copied; a conjugated view of
torch is resolved first, as its memory holds other numbers.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import COMPLEX, Array, DType
from ..errors import ArgumentError
from ..manifest import Signature
from ..tensors import Tensor
from .device_array import DeviceArray
from .dlpack import export_capsule, import_capsule


class ComplexViews:
    """Between what a method's callers see and what its kernels take."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._inputs = [n for n, one in enumerate(signature.inputs) if one.pairs]
        self._outputs = [n for n, one in enumerate(signature.outputs) if one.pairs]

    def given(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments, complex ones as pairs."""
        made = list(leaves)
        for number in self._inputs:
            tensor = self._signature.inputs[number]
            found = _type_of(made[number])
            wanted = COMPLEX[tensor.dtype.name]
            if found != wanted.name:
                raise ArgumentError(
                    f"calling {self._signature.name}: argument "
                    f"{self._signature.path_of(tensor)!r} has dtype {found}; accepted: "
                    f"{wanted.name}, in any array that can be viewed"
                )
            if tensor.name in self._signature.updates and _is_turned(made[number]):
                raise ArgumentError(
                    f"calling {self._signature.name}: argument "
                    f"{self._signature.path_of(tensor)!r} is a conjugated view, but the model "
                    "changes it; give the tensor of .resolve_conj()"
                )
            made[number] = as_pairs(made[number], tensor.dtype)
        return made

    def returned(self, results: list[Any]) -> list[Any]:
        """The results, pairs as complex ones."""
        for number in self._outputs:
            results[number] = as_complex(results[number])
        return results


class _Pairs:
    """An array of another framework as pairs, by DLPack."""

    def __init__(self, array: Any, dtype: DType) -> None:
        self._array, self._dtype = array, dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        place: tuple[int, int] = self._array.__dlpack_device__()
        return place

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._array.__dlpack__(**options)
        found = import_capsule(capsule)
        steps = None if found.strides is None else (*(2 * one for one in found.strides), 1)
        shape, place = (*found.shape, 2), found.place
        return export_capsule(capsule, found.address, shape, self._dtype, place, steps)


def as_pairs(value: Any, dtype: DType) -> Any:
    """A complex array as pairs of ``dtype`` in the same memory."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return torch.view_as_real(value.detach().resolve_conj().resolve_neg())
    if isinstance(value, (np.ndarray, np.generic)):
        return pairs_of(np.asarray(value))
    if type(value).__module__.split(".")[0] == "cupy" and value.flags.c_contiguous:
        return value.reshape(*value.shape, 1).view(dtype.name)
    return _Pairs(value, dtype)


def pairs_of_weight(value: Any, dtype: DType) -> Any:
    """Complex numbers whose parts are of ``dtype`` as pairs; what else is given, as it is."""
    wanted = COMPLEX.get(dtype.name)
    is_complex = wanted is not None and _type_of(value) == wanted.name
    return as_pairs(value, dtype) if is_complex else value


def as_complex(value: Any) -> Any:
    """Pairs as a complex array in the same memory."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return torch.view_as_complex(value)
    if isinstance(value, DeviceArray):
        return value.of_pairs(COMPLEX[value.dtype.name])
    return value.view(COMPLEX[value.dtype.name].name)[..., 0]


def pairs_of(array: Array) -> Array:
    """A numpy array of complex numbers as pairs, of any strides."""
    parts: Array = array.real
    shape, steps = (*array.shape, 2), (*array.strides, parts.itemsize)
    writeable = bool(array.flags.writeable)
    made: Array = np.lib.stride_tricks.as_strided(parts, shape, steps, writeable=writeable)
    return made


def pairs_or_same(array: Array, tensor: Tensor) -> Array:
    """What kernels take for an array of a caller."""
    return pairs_of(array) if tensor.pairs else array


def complex_or_same(value: Any, tensor: Tensor) -> Any:
    """What a caller gives for what kernels take."""
    return as_complex(value) if tensor.pairs else value


def _is_turned(value: Any) -> bool:
    """True for a view of torch whose memory holds other numbers."""
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(value, torch.Tensor)
    return is_tensor and bool(value.is_conj() or value.is_neg())


def _type_of(value: Any) -> str:
    """The element type of an array of any framework."""
    if hasattr(value, "dtype"):
        return str(value.dtype).removeprefix("torch.")
    if hasattr(value, "__dlpack__"):
        return import_capsule(value.__dlpack__()).dtype
    return type(value).__name__
