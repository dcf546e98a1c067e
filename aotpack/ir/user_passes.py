"""Passes of the user: functions that take the lowered program and return another."""

from collections.abc import Callable, Iterable
from typing import Any

from aotpack.errors import UsageError, calling_user
from aotpack.ir.program import Program
from aotpack.ir.verify.invalid import InvalidProgram
from aotpack.ir.verify.program import verify

Pass = Callable[[Program], Program]


def read_passes(passes: Iterable[Pass]) -> tuple[Pass, ...]:
    """What a user gave as passes; UsageError for what is not several functions."""
    if callable(passes):
        raise UsageError(
            f"passes: found {_name(passes)} itself; accepted is a list: passes=[{_name(passes)}]"
        )
    if not isinstance(passes, Iterable):
        raise UsageError(f"passes: found a {type(passes).__name__}; accepted is a list")
    found = tuple(passes)
    for one in found:
        if not callable(one):
            raise UsageError(
                f"passes: found {one!r} in the list; accepted are functions from a Program to one"
            )
    return found


def apply_passes(program: Program, passes: Iterable[Pass]) -> Program:
    """What the passes make of a program, one after the other; each result is verified.

    A pass may change anything but the contract: sizes, inputs, weights, what is updated, and the
    types and shapes of results. UsageError names the pass that does, that raises, or whose program
    is illegal.
    """
    for one in passes:
        name = _name(one)
        with calling_user(f"pass {name}", "a function from a Program to one"):
            changed = one(program)
        if not isinstance(changed, Program):
            found = type(changed).__name__
            raise UsageError(f"pass {name}: it returns a {found}; accepted is a Program")
        try:
            verify(changed)
        except InvalidProgram as error:
            raise UsageError(f"pass {name}: its program is illegal: {error}") from error
        for what, before, after in zip(
            CONTRACT, _contract(program), _contract(changed), strict=True
        ):
            if before != after:
                raise UsageError(
                    f"pass {name}: it changes the {what}, from {before} to {after}; "
                    "a pass keeps the sizes, inputs, weights, updates and the shapes of results"
                )
        program = changed
    return program


CONTRACT = ("sizes", "inputs", "weights", "updates", "results")


def _contract(program: Program) -> tuple[Any, ...]:
    """What callers and the rest of a build rely on, in the order of CONTRACT."""
    results = [program.buffers[name] for name in program.results]
    return (
        [str(size) for size in program.sizes],
        [str(program.buffers[name]) for name in program.inputs],
        [str(program.buffers[name]) for name in program.weights],
        [update.name for update in program.updates],
        [f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]" for buffer in results],
    )


def _name(one: object) -> str:
    """As a user knows a function, or the type of another callable."""
    return str(getattr(one, "__name__", type(one).__name__))
