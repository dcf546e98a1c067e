"""Guards: checks a call against the signature before any launch, and solves for the sizes.

An error names the argument, the dimension, the value found and those accepted.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..dtypes import WIDENED, DType, is_accepted
from ..errors import ArgumentError, PackageError
from ..manifest import Signature
from ..sizes import Size
from ..strides import is_dense
from ..tensors import Tensor, Weight


class Seen(NamedTuple):
    """The facts of an argument. ``place`` is DLPack's (device type, index).

    An argument that ``needs_copy`` can only be read after its framework has copied it. One that
    ``converts`` has a framework that copies it to another type or order. ``strides`` are in
    elements, None for those of row-major order or for unknown ones.
    """

    framework: str
    shape: tuple[int, ...]
    dtype: str
    place: tuple[int, int]
    contiguous: bool
    needs_copy: bool = False
    converts: bool = False
    strides: tuple[int, ...] | None = None

    def lies_in(self, order: tuple[int, ...]) -> bool:
        """True for an argument that can be read where it lies, in an order of its dimensions."""
        return is_dense(self.shape, self.strides, order) if order else self.contiguous


def check_call(
    signature: Signature, seen: Sequence[Seen], place: tuple[int, int]
) -> dict[str, int]:
    """The model's sizes for these arguments; ArgumentError if they violate a guard."""
    for tensor, argument in zip(signature.inputs, seen, strict=True):
        check_dtype(signature, tensor, argument)
        check_change(signature, tensor, argument)
        check_rank(signature, tensor, argument)
        check_place(signature, tensor, argument, place)
    sizes = _solve(signature, seen)
    check_ranges(signature, sizes)
    check_dimensions(signature, seen, sizes)
    check_conditions(signature, sizes)
    for tensor, argument in zip(signature.inputs, seen, strict=True):
        check_contiguous(signature, tensor, argument)
    return {size.name: sizes[size.name] for size in signature.sizes}


def check_conditions(signature: Signature, sizes: Mapping[str, int]) -> None:
    """The sizes meet what the model asks of them; what data decide is checked when it is known."""
    for condition in signature.conditions:
        names = condition.holds.names
        if sizes.keys() >= {*names} and not condition.holds.evaluate(sizes):
            found = ", ".join(f"{name} = {sizes[name]}" for name in names)
            raise ArgumentError(
                f"calling {signature.name}: the sizes are {found}; accepted: sizes with "
                f"{condition.text}\n  {condition.place}"
            )


def sizes_of(signature: Signature, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The model's sizes for input shapes that satisfy the guards."""
    return _solve(signature, [Seen("numpy", shape, "", (1, 0), True) for shape in shapes])


def check_dtype(signature: Signature, tensor: Tensor, argument: Seen) -> None:
    """The element type is the one the kernels were compiled for, or is widened to it."""
    if is_accepted(argument.dtype, tensor.dtype, argument.framework):
        return
    is_changed = tensor.name in signature.updates
    narrower = WIDENED.get(tensor.dtype.name, ()) if not is_changed else ()
    if argument.dtype in narrower and argument.converts:
        return
    bits = ", in numpy its bits as uint16 or an array of ml_dtypes"
    accepted = f"{tensor.dtype}{bits if str(tensor.dtype) == 'bfloat16' else ''}"
    if narrower and argument.converts:
        accepted += f", or {', '.join(narrower)}, which are widened"
    raise _refused(
        signature,
        tensor,
        f"has dtype {argument.dtype}; accepted: {accepted}. "
        f"{_remedy(tensor.dtype, argument.dtype, argument.framework)}",
    )


def check_change(signature: Signature, tensor: Tensor, argument: Seen) -> None:
    """An argument that the call changes is not copied: the caller would not see the change."""
    if argument.needs_copy and argument.framework == "torch" and tensor.name in signature.updates:
        reason = "is a negated view, but the model changes it; give the tensor of .resolve_neg()"
        raise _refused(signature, tensor, reason)


def _remedy(dtype: DType, found: str, framework: str) -> str:
    """What to do with elements of another type."""
    if found.startswith(("str", "bytes")):
        return "Strings are not accepted: give numbers, such as the ids of tokens"
    if found.startswith("complex"):
        real = f".real{'.contiguous()' * (framework == 'torch')}"
        return f"It has imaginary parts: give the real ones, {real}, or magnitudes, abs(x)"
    return f"Convert it: {_conversion(dtype, found, framework)}"


def _conversion(dtype: DType, found: str, framework: str) -> str:
    """The caller's words for a conversion of what has another type."""
    if framework == "torch":
        is_quantized = found.startswith(("qint", "quint"))
        is_done = is_quantized and str(dtype) == "float32"
        return f"{'.dequantize()' * is_quantized}{'' if is_done else f'.to(torch.{dtype})'}"
    if framework == "numpy" and not dtype.is_known_to_numpy:
        bits = ', or cut float32 to bits: (x.view("uint32") >> 16).astype("uint16")'
        return f".astype(ml_dtypes.{dtype}){bits if dtype.name == 'bfloat16' else ''}"
    is_named = framework in ("numpy", "cupy") and dtype.is_known_to_numpy
    return f'.astype("{dtype}")' if is_named else f"to {dtype}"


def remedy_of_weight(weight: Weight, dtype: str, shape: tuple[int, ...], framework: str) -> str:
    """What to do with a tensor for a weight of another type or shape."""
    if shape == weight.shape:
        return _remedy(weight.dtype, dtype, framework)
    if len(shape) == 2 and shape[::-1] == weight.shape:
        return "It is the transposed one: give its .T"
    return "Weights of other shapes need another build"


def number_hint(tensor: Tensor, value: object) -> str:
    """How to pass a number of Python for a tensor without dimensions; "" for other values."""
    if tensor.shape or not isinstance(value, (bool, int, float)):
        return ""
    if "int" in tensor.dtype.name and isinstance(value, float):
        if not value.is_integer():
            return ". Pass an integer"
        value = int(value)
    if tensor.dtype.name == "int64":
        return f". Pass {int(value)}"
    if tensor.dtype.is_known_to_numpy:
        return f". Pass numpy.{tensor.dtype}{'_' * (tensor.dtype.name == 'bool')}({value!r})"
    return f". Pass torch.tensor({value!r}, dtype=torch.{tensor.dtype})"


def check_rank(signature: Signature, tensor: Tensor, argument: Seen) -> None:
    """The number of dimensions is the traced one."""
    if len(argument.shape) != len(tensor.shape):
        raise _refused(
            signature,
            tensor,
            f"has {len(argument.shape)} dimensions, shape {list(argument.shape)}; accepted: "
            f"{len(tensor.shape)}, shape [{', '.join(map(str, tensor.shape))}]"
            f"{_batch_hint(tensor, argument.shape)}",
        )


def _batch_hint(tensor: Tensor, shape: Sequence[int]) -> str:
    """What an example without its batch lacks, or has too much; "" for other shapes."""

    if shape and not tensor.shape and set(shape) == {1}:
        return ". One number is wanted: pass x.reshape(())"

    def fits(rows: Sequence[int], sizes: Sequence[Size]) -> bool:
        pairs = zip(rows, sizes, strict=True)
        return bool(rows) and all(size.constant in (None, found) for found, size in pairs)

    if len(shape) == len(tensor.shape) - 1 and fits(shape, tensor.shape[1:]):
        return ". One example without a batch? Pass x[None]"
    if len(shape) == len(tensor.shape) + 1 and shape[0] == 1 and fits(shape[1:], tensor.shape):
        return ". A batch of one where one example is wanted? Pass x[0]"
    return ""


def check_place(
    signature: Signature, tensor: Tensor, argument: Seen, place: tuple[int, int]
) -> None:
    """The memory is on the model's device; numpy arrays are copied there."""
    if argument.framework != "numpy" and argument.place != place:
        raise _refused(
            signature,
            tensor,
            f"is on {describe(argument.place)}; this model runs on {describe(place)}. "
            f"Move the argument, or load the model on its device",
        )


def check_contiguous(signature: Signature, tensor: Tensor, argument: Seen) -> None:
    """The elements lie in the tensor's order without gaps, or can be copied from row-major."""
    if argument.lies_in(tensor.order):
        return
    is_copied = argument.converts and tensor.name not in signature.updates
    if tensor.order and argument.contiguous and is_copied:
        return
    if not tensor.order:
        rank = len(argument.shape)
        lasts = (0, *range(2, rank), 1) if rank in (4, 5) else ()
        if lasts and argument.lies_in(lasts):
            found = "lies in channels-last memory"
            advice = ", or build with an example input in channels-last memory"
        else:
            found, advice = "is not contiguous", ""
        reason = f"{found}; accepted: row-major memory. Call .contiguous(){advice}"
        raise _refused(signature, tensor, reason)
    dims = ", ".join(map(str, tensor.order))
    places = ", ".join(str(tensor.order.index(dim)) for dim in range(len(tensor.order)))
    raise _refused(
        signature,
        tensor,
        f"lies in another order in memory; accepted: its dimensions in the order {dims}, outermost "
        f"first, without gaps{', or row-major memory' if is_copied else ''}. Call "
        f".permute({dims}).contiguous().permute({places})",
    )


def needs_copy(tensor: Tensor, argument: Seen) -> bool:
    """True for an argument that its framework copies to the type and order of the tensor."""
    if not is_accepted(argument.dtype, tensor.dtype, argument.framework):
        return True
    if not tensor.order:
        return argument.needs_copy
    is_negated = argument.needs_copy and argument.framework == "torch"
    return is_negated or not argument.lies_in(tensor.order)


def check_ranges(signature: Signature, sizes: dict[str, int]) -> None:
    """Each size lies in the range of the build."""
    for size in signature.sizes:
        value = sizes[size.name]
        if not size.low <= value <= size.high or value % size.multiple:
            tensor, dimension = _place_of(signature, size.name)
            raise _refused(
                signature,
                tensor,
                f"makes {size.name} {value} by its dimension {dimension}; accepted: {size}. "
                "Other sizes need another build",
            )


def check_dimensions(signature: Signature, seen: Sequence[Seen], sizes: dict[str, int]) -> None:
    """Every dimension equals its size expression: constants, formulas and repeated names."""
    for tensor, argument in zip(signature.inputs, seen, strict=True):
        for dimension, (size, found) in enumerate(zip(tensor.shape, argument.shape, strict=True)):
            wanted = size.evaluate(sizes)
            if found == wanted:
                continue
            reason = f"accepted: {wanted}"
            if size.constant is not None:
                reason += (
                    ", the example's. A size that differs from call to call is declared dynamic "
                    "in the build: --dynamic, or dynamic_shapes"
                )
            if size.names:
                known = ", ".join(f"{name} = {sizes[name]}" for name in size.names)
                other = _place_of(signature, size.names[0])
                reason += f", for it is {size} with {known} (from {signature.path_of(other[0])!r})"
            raise _refused(
                signature, tensor, f"has size {found} in dimension {dimension}; {reason}"
            )


def describe(place: tuple[int, int]) -> str:
    """A device in the user's spelling."""
    kind, index = place
    names = {1: "cpu", 2: f"cuda:{index}", 3: "pinned host memory", 10: f"rocm:{index}"}
    return names.get(kind, "another kind of device")


def _solve(signature: Signature, seen: Sequence[Seen]) -> dict[str, int]:
    """Solve for sizes: dimensions that are one name first, then formulas in one unknown."""
    dimensions = [
        (tensor, dimension, size, found)
        for tensor, argument in zip(signature.inputs, seen, strict=True)
        for dimension, (size, found) in enumerate(zip(tensor.shape, argument.shape, strict=True))
        if size.names
    ]
    sizes: dict[str, int] = {}
    for _, _, size, found in dimensions:
        if size.is_name:
            sizes.setdefault(size.text, found)
    for tensor, dimension, size, found in dimensions:
        unknown = [name for name in size.names if name not in sizes]
        if len(unknown) != 1:
            continue
        value = size.solve(unknown[0], found, sizes)
        if value is None:
            raise _refused(
                signature,
                tensor,
                f"has size {found} in dimension {dimension}; accepted: a value of {size}",
            )
        sizes[unknown[0]] = value
    lost = [size.name for size in signature.sizes if size.name not in sizes]
    if lost:
        raise PackageError(
            f"calling {signature.name}: the size {lost[0]} does not follow from any argument's "
            "shape. The package is damaged or of a newer aotpack: reinstall it."
        )
    return sizes


def _place_of(signature: Signature, name: str) -> tuple[Tensor, int]:
    """The argument and dimension that define a size."""
    places = [
        (not size.is_name, order, tensor, dimension)
        for order, tensor in enumerate(signature.inputs)
        for dimension, size in enumerate(tensor.shape)
        if name in size.names
    ]
    _, _, tensor, dimension = min(places, key=lambda place: place[:2])
    return tensor, dimension


def _refused(signature: Signature, tensor: Tensor, reason: str) -> ArgumentError:
    return ArgumentError(
        f"calling {signature.name}: argument {signature.path_of(tensor)!r} {reason}."
    )
