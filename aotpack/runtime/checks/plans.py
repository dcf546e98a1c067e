"""Checks a plan against the manifest before memory is laid out for it.

An 8-bit float is bytes to kernels, so types are compared by their storage.
"""

from collections.abc import Iterator, Mapping, Sequence

from ..dtypes import DType
from ..errors import PackageError
from ..manifest import Kernel, Manifest
from ..plan import Branch, Launch, Loop, Part, Plan


def check_plan(manifest: Manifest, plan: Plan, sizes: Sequence[int]) -> None:
    """Outputs have the shapes of the signature; kernels get the element types they were made for.

    So no kernel reads or writes beyond a tensor that the runtime allocates by the signature.
    """
    signature = manifest.signature
    values = {size.name: value for size, value in zip(signature.sizes, sizes, strict=True)}
    wanted = tuple(
        tuple(size.evaluate(values) for size in output.shape)
        if all(name in values for size in output.shape for name in size.names)
        else None
        for output in signature.outputs
    )
    if plan.outputs != wanted:
        raise PackageError(
            f"preparing a plan: its outputs have the shapes {plan.outputs}, by manifest.json they "
            f"have {wanted}. The package is damaged: reinstall it."
        )
    check_types(manifest, plan)


def check_types(manifest: Manifest, plan: Plan | Part) -> None:
    """Kernels get the element types they were made for; a rest is checked once sizes are known."""
    signature = manifest.signature
    dtypes = {tensor.name: tensor.dtype for tensor in (*signature.inputs, *signature.outputs)}
    dtypes |= {weight.name: weight.dtype for weight in manifest.weights}
    dtypes |= {weight.name: weight.dtype for weight in manifest.derived}
    for launch in _launches(plan):
        _check_launch(launch, manifest.kernels, dtypes)


def _check_launch(
    launch: Launch, kernels: Mapping[str, Kernel], dtypes: Mapping[str, DType]
) -> None:
    kernel = kernels.get(launch.kernel)
    for arg, declared in zip(launch.args, kernel.args if kernel else (), strict=False):
        found = dtypes.get(arg) if isinstance(arg, str) else None
        if found and declared.pointer and found.storage != declared.dtype.storage:
            raise PackageError(
                f"preparing a plan: {launch.kernel} takes {declared.dtype}, and {arg!r} is {found} "
                "by manifest.json. The package is damaged: reinstall it."
            )


def _launches(part: Plan | Part) -> Iterator[Launch]:
    """All launches, those inside of branches and loops too."""
    for _, step in part.steps():
        if isinstance(step, Launch):
            yield step
        elif isinstance(step, Branch):
            yield from _launches(step.first)
            yield from _launches(step.second)
        elif isinstance(step, Loop):
            for inner in filter(None, (step.entry, step.body, step.test)):
                yield from _launches(inner)
