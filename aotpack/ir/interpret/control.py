"""Evaluate branches, loops and size reads over the evaluator's memory."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from aotpack.ir.ops.reference import Array
from aotpack.ir.program import Branch, Loop, Program, SizeRead
from aotpack.ir.symbolic.integers import Int

Memory: TypeAlias = Mapping[str, Array]
Sizes: TypeAlias = Mapping[str, int]
RunPart: TypeAlias = Callable[[Program, Sizes], None]


def run_control(
    operation: Branch | Loop | SizeRead, memory: Memory, sizes: Sizes, run: RunPart
) -> None:
    """Run a side of a branch, the parts of a loop as the conditions say, or what sizes wait for."""
    if isinstance(operation, SizeRead):
        run(operation.rest, {**sizes, **_counted(operation, memory, sizes)})
        return
    if isinstance(operation, Branch):
        run(operation.sides[not _holds(operation.predicate, memory, sizes)], sizes)
        return
    run(operation.entry, sizes)
    turn = 0
    while _continues(operation, turn, memory, sizes, run):
        run(operation.body, {**sizes, operation.turn.name: turn} if operation.turn else sizes)
        turn += 1


def _counted(operation: SizeRead, memory: Memory, sizes: Sizes) -> dict[str, int]:
    """The sizes that are read."""
    found: dict[str, int] = {}
    for size, count, most in zip(operation.sizes, operation.counts, operation.most, strict=True):
        value = int(memory[count])
        if not size.low <= value <= min(size.high, most.evaluate(sizes)):
            raise ValueError(f"evaluating {size}: {value} is not in [{size.low}, {size.high}]")
        found[size.name] = value
    return found


def _continues(loop: Loop, turn: int, memory: Memory, sizes: Sizes, run: RunPart) -> bool:
    if loop.test is not None:
        run(loop.test, sizes)
        return _holds(loop.condition, memory, sizes)
    assert isinstance(loop.condition, Int)
    return _holds(loop.condition - turn, memory, sizes)


def _holds(predicate: str | Int, memory: Memory, sizes: Sizes) -> bool:
    """True when a condition holds; an integer one is the number of iterations that are left."""
    if isinstance(predicate, str):
        return bool(memory[predicate])
    return int(predicate.evaluate(sizes)) > 0
