"""Calls of foreign code: the user's Triton kernels, under our names, and operators of torch."""

from collections.abc import Iterator

from aotpack.errors import UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Configuration, Foreign, TorchOperator, TritonKernel
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import MAX_ARCH, PointwiseTile, Variant
from aotpack.ir.kernels.traffic import Work
from aotpack.ir.program import Program, in_place_pairs
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Int, product, total
from aotpack.render.emit.arguments import POINTER_MULTIPLE
from aotpack.render.emit.language import RenderedKernel
from aotpack.render.emit.source_text import digest
from aotpack.render.forms import Form
from aotpack.render.languages import language_of
from aotpack.render.sources import Called, Choice, Launched, Sources
from aotpack.stages import KernelArg, TorchCall
from aotpack.target import CPU, Target

_ANY_GPU = (1, MAX_ARCH)


def refuse_foreign(schedule: Schedule, targets: tuple[Target, ...]) -> None:
    """Refuse the user's Triton kernels for processors; one error lists all of them."""
    calls = [call for call in _calls(schedule) if isinstance(call.kernel, TritonKernel)]
    if not calls or CPU not in targets:
        return
    lines = (
        f"  {call.kernel.function}" + "".join(f"  ({place})" for place in call.origin.sources)
        for call in calls
    )
    raise UnsupportedError(
        "rendering for the target cpu: the model launches Triton kernels of its own, which GPUs "
        "alone run:\n" + "\n".join(dict.fromkeys(lines)) + "\nBuild for GPU targets, or give the "
        "operators around them a lowering with aotpack.register_lowering."
    )


def _calls(schedule: Schedule) -> Iterator[Foreign]:
    """The calls of a schedule and of its parts."""
    for kernel in schedule.kernels:
        if kernel.foreign is not None:
            yield kernel.foreign
        for part in kernel.parts:
            yield from _calls(part)


def called_choice(schedule: Schedule, kernel: Kernel, sources: Sources) -> Choice:
    """The only choice of a call of torch; it is the same for all targets."""
    call = kernel.foreign
    assert call is not None and isinstance(call.kernel, TorchOperator)
    variant = Variant(PointwiseTile(1, 1), 0, _ANY_GPU[1], Int.of(1), None)
    called = _called(kernel.name, call, call.kernel, schedule.program, sources)
    return Choice(variant, ((called,),))


def launch_forms(schedule: Schedule, kernel: Kernel) -> tuple[Variant, tuple[Form, ...]]:
    """The variant of a launch of a user's Triton kernel, and a form for each configuration."""
    call = kernel.foreign
    assert call is not None and isinstance(call.kernel, TritonKernel)
    first = Configuration(call.kernel, call.grid)
    variant = Variant(_tile(call.kernel), *_ANY_GPU, Int.of(1), None)

    def form(one: Configuration) -> Form:
        return lambda own, sources: (_launched(schedule, kernel, one, own, sources),)

    return variant, tuple(map(form, (first, *call.others)))


def _tile(kernel: TritonKernel) -> PointwiseTile:
    return PointwiseTile(1, kernel.num_warps, kernel.num_stages)


def _launched(
    schedule: Schedule, kernel: Kernel, one: Configuration, own: Variant, sources: Sources
) -> Launched:
    """A launch in one configuration."""
    call, program = kernel.foreign, schedule.program
    assert call is not None
    tile = _tile(one.kernel)
    touched = (program.buffers[name] for name in (*call.operands, *call.targets))
    moved = total(product(buffer.shape) * buffer.dtype.itemsize for buffer in touched)
    x, y, z = one.grid
    made = RenderedKernel(
        kernel.name,
        one.kernel.text,
        _parameters(call, program),
        tuple(map(str, call.arguments)),
        tile,
        Work(moved, Int.of(0)),
        x,
        is_ours=False,
    )
    name = sources.add(made, own, language_of(tile))
    return Launched(name, x, made.arguments, (y, z))


def _called(
    name: str, call: Foreign, operator: TorchOperator, program: Program, sources: Sources
) -> Called:
    """A call of torch; equal calls share an entry of the manifest."""
    dtypes = tuple(program.buffers[a].dtype if isinstance(a, str) else None for a in call.arguments)
    made = TorchCall(
        f"{name}_{digest(f'{operator} {dtypes}')}", operator, dtypes, len(call.targets)
    )
    sources.calls[made.name] = made
    arguments = tuple(
        (a, program.buffers[a].shape) if isinstance(a, str) else a for a in call.arguments
    )
    return Called(made.name, arguments)


def _parameters(call: Foreign, program: Program) -> tuple[KernelArg, ...]:
    """Pointers of their buffers' types; integers of 32 bits where all values fit, as in Triton."""
    changed = {target for target, _ in in_place_pairs(call)}
    return tuple(
        KernelArg(
            name,
            program.buffers[argument].dtype,
            is_pointer=True,
            multiple=POINTER_MULTIPLE,
            is_written=argument in call.targets,
            is_in_place=argument in changed,
        )
        if isinstance(argument, str)
        else KernelArg(name, _integer_type(argument), is_pointer=False, is_written=False)
        for name, argument in zip(call.kernel.passed, call.arguments, strict=True)
    )


def _integer_type(number: Int) -> DType:
    low, high = bounds(number)
    return DType.INT32 if low >= -LARGEST_SIZE and high <= LARGEST_SIZE else DType.INT64
