"""The inputs and outputs of a loaded model, one by one."""

from dataclasses import dataclass

from ..manifest import Signature
from ..structures.text import paths
from ..tensors import CountedSize, SizeRange, Tensor


@dataclass(frozen=True, slots=True, repr=False)
class TensorInfo:
    """An input or an output of a loaded model.

    ``path`` says where it stands: ``values[0]`` in a call, ``['logits']`` behind a result. Its
    ``shape`` has numbers and size expressions over the ``sizes``. The tensor lies on ``device``.
    ``alignment`` is in bytes: an input at another address is copied first. A call writes to what
    ``is_changed``.
    """

    name: str
    path: str
    dtype: str
    shape: tuple[int | str, ...]
    sizes: tuple[SizeRange | CountedSize, ...]
    device: str
    alignment: int
    is_changed: bool

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        ranges = "".join(f", {size}" for size in self.sizes)
        changed = ", changed by the call" if self.is_changed else ""
        return f"<{self.name}: {self.dtype}[{shape}] on {self.device}{ranges}{changed}>"


def inputs_of(signature: Signature, device: str, alignment: int) -> tuple[TensorInfo, ...]:
    """The inputs in the order of the manifest."""
    pairs = zip(signature.inputs, signature.paths, strict=True)
    return tuple(
        _info(signature, tensor, tensor.name, path, device, alignment) for tensor, path in pairs
    )


def outputs_of(signature: Signature, device: str, alignment: int) -> tuple[TensorInfo, ...]:
    """The outputs in the order of the manifest."""
    rows = zip(signature.outputs, signature.labels, paths(signature.result, ""), strict=True)
    return tuple(
        _info(signature, tensor, label, path, device, alignment) for tensor, label, path in rows
    )


def _info(
    signature: Signature, tensor: Tensor, name: str, path: str, device: str, alignment: int
) -> TensorInfo:
    names = {name for size in tensor.shape for name in size.names}
    sizes: tuple[SizeRange | CountedSize, ...] = (*signature.sizes, *signature.counted)
    return TensorInfo(
        name,
        path,
        tensor.element,
        tuple(str(size) if size.constant is None else size.constant for size in tensor.extents),
        tuple(size for size in sizes if size.name in names),
        device,
        alignment,
        tensor.name in signature.updates,
    )
