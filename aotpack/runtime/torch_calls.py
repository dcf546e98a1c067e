"""Operators that torch runs between launches; the only module of the runtime that imports torch.

Used only by packages whose manifest has such calls (``aotpack build --fallback torch``).
"""

import ctypes
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeAlias

from .arrays.dlpack import export_capsule
from .devices.device import Device, is_host
from .dtypes import DType
from .errors import DeviceError, PackageError
from .manifest import Manifest, TorchCall, called
from .plan import Call

Values: TypeAlias = "ctypes.Array[ctypes.c_uint64]"


class BoundCall(NamedTuple):
    """A call with the names of the tensors it reads and writes.

    ``run`` takes the cell numbers by name, the cells, and the stream.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    run: Callable[[Mapping[str, int], Values, int], None]


class TorchCalls:
    """The torch operators of a package, resolved when it is loaded."""

    def __init__(self, manifest: Manifest, device: Device) -> None:
        self._device = device
        self._torch = _torch(manifest)
        self._calls = manifest.calls
        self._operators = {
            name: self._operator(manifest, call) for name, call in self._calls.items()
        }
        kind, index = device.place
        self._place = "cpu" if is_host(device) else f"cuda:{index}"
        if kind == 2 and not self._torch.cuda.is_available():
            raise DeviceError(
                f"loading {manifest.signature.name} on {device.name}: there torch runs "
                f"{_names(manifest)}, and the installed one has no CUDA. Install one that has."
            )

    def bound(self, call: Call) -> BoundCall:
        """Bind a call of a plan; it reads its tensors' addresses from cells at run time."""
        known = self._calls.get(call.name)
        if known is None or len(known.dtypes) != len(call.args):
            raise PackageError(
                f"preparing a plan: manifest.json says nothing of the call {call.name}, or "
                "something else. The package is damaged: reinstall it."
            )
        passed = list(zip(call.args, known.dtypes, strict=True))
        first = len(passed) - known.results

        def run(cells: Mapping[str, int], values: Values, stream: int) -> None:
            with self._torch.no_grad(), self._on(stream):
                given = [self._value(arg, dtype, cells, values) for arg, dtype in passed]
                self._run(call.name, known, given[:first], given[first:])

        names = [None if isinstance(arg, int) else arg[0] for arg in call.args]
        reads, writes = names[:first], names[first:]
        return BoundCall(tuple(filter(None, reads)), tuple(filter(None, writes)), run)

    def _run(self, name: str, call: TorchCall, given: list[Any], results: list[Any]) -> None:
        args = [self._filled(part, given) for part in call.args]
        kwargs = {key: self._filled(part, given) for key, part in call.kwargs.items()}
        try:
            made = self._operators[name](*args, **kwargs)
        except Exception as error:  # any error of torch is shown to the user
            raise DeviceError(
                f"running {call.operator} through torch on {self._device.name}: "
                f"{type(error).__name__}: {error}"
            ) from error
        found = made if isinstance(made, (tuple, list)) else (made,)
        for target, result in zip(results, found, strict=True):
            if (target.shape, target.dtype) != (result.shape, result.dtype):
                raise DeviceError(
                    f"running {call.operator} through torch: it gave {result.dtype} of shape "
                    f"{tuple(result.shape)}, at the build {target.dtype} of shape "
                    f"{tuple(target.shape)}. Use the torch of the build."
                )
            target.copy_(result)

    def _value(
        self,
        arg: tuple[str, tuple[int, ...]] | int,
        dtype: DType | None,
        cells: Mapping[str, int],
        values: Values,
    ) -> Any:
        """An integer, or the tensor at an address."""
        if isinstance(arg, int) or dtype is None:
            return arg
        name, shape = arg
        if 0 in shape:
            return self._torch.empty(shape, dtype=self._dtype(dtype.name), device=self._place)
        place = self._device.place
        capsule = export_capsule(None, values[cells[name]], shape, dtype, place)
        return self._torch.utils.dlpack.from_dlpack(capsule)

    def _filled(self, part: Any, given: list[Any]) -> Any:
        """Substitute passed values into an argument of the manifest."""
        if isinstance(part, list):
            return [self._filled(inner, given) for inner in part]
        if not isinstance(part, dict):
            return part
        ((kind, value),) = part.items()
        if kind == "passed":
            return given[value]
        return self._dtype(value) if kind == "dtype" else float(value)

    def _dtype(self, name: str) -> Any:
        return getattr(self._torch, name)

    def _on(self, stream: int) -> Any:
        """Inside the block torch uses the stream of the call."""
        cuda, place = self._torch.cuda, self._place
        if place == "cpu":
            return nullcontext()
        return cuda.stream(
            cuda.ExternalStream(stream, device=place) if stream else cuda.default_stream(place)
        )

    def _operator(self, manifest: Manifest, call: TorchCall) -> Any:
        found = self._torch.ops
        for part in call.operator.split("."):
            found = getattr(found, part, None)
        if found is None:
            namespace = call.operator.split(".")[0]
            raise PackageError(
                f"loading {manifest.signature.name}: torch has no operator {call.operator}, which "
                f"the package calls. Import what defines {namespace!r} before you load it (on a "
                "command line: --import MODULE)."
            )
        return found


def _torch(manifest: Manifest) -> Any:
    try:
        import torch
        import torch.utils.dlpack
    except ImportError as error:
        raise PackageError(
            f"loading {manifest.signature.name}: torch runs {_names(manifest)}, and it cannot be "
            f"imported ({error}). Install torch."
        ) from None
    return torch


def _names(manifest: Manifest) -> str:
    return ", ".join(called(manifest))
