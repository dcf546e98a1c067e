"""Passes of the user: functions that take the lowered program and return another."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from aotpack.errors import UsageError, a_type, calling_user
from aotpack.ir.passes import AfterPass, run_passes
from aotpack.ir.program import Program
from aotpack.ir.verify.invalid import InvalidProgram
from aotpack.ir.verify.program import verify

UserPass = Callable[[Program], Program]


def read_passes(passes: Iterable[UserPass]) -> tuple[UserPass, ...]:
    """The user's passes as a tuple; UsageError unless they are a list of functions."""
    if callable(passes):
        raise UsageError(
            f"passes: found {_name(passes)} itself; accepted is a list: passes=[{_name(passes)}]"
        )
    if not isinstance(passes, Iterable):
        raise UsageError(f"passes: found {a_type(passes)}; accepted is a list")
    found = tuple(passes)
    for one in found:
        if not callable(one):
            raise UsageError(
                f"passes: found {one!r} in the list; accepted are functions from a Program to one"
            )
    return found


def apply_passes(
    program: Program, passes: Iterable[UserPass], after: AfterPass | None = None
) -> Program:
    """Run the user's passes on a program, in order; each result is verified.

    A pass keeps the contract: sizes, inputs, weights, updated tensors, and the types and shapes of
    results. UsageError names a pass that does not, that raises, or whose program is illegal.
    """
    return run_passes(map(_Checked, passes), _Lowered(program), after).program


@dataclass(frozen=True, slots=True)
class _Lowered:
    """A lowered program between passes."""

    program: Program

    def as_text(self) -> str:
        return str(self.program)

    def verify(self, before: Self | None = None) -> None:
        if before is None or self.program is not before.program:
            verify(self.program)


@dataclass(frozen=True, slots=True)
class _Checked:
    """A function of the user as a pass, with its result checked."""

    function: UserPass

    @property
    def name(self) -> str:
        return _name(self.function)

    def __call__(self, state: _Lowered) -> _Lowered:
        with calling_user(f"pass {self.name}", "a function from a Program to one"):
            changed = self.function(state.program)
        if not isinstance(changed, Program):
            found = type(changed).__name__
            raise UsageError(f"pass {self.name}: it returns a {found}; accepted is a Program")
        try:
            verify(changed)
        except InvalidProgram as error:
            raise UsageError(f"pass {self.name}: its program is illegal: {error}") from error
        for what, before, after in zip(
            CONTRACT, _contract(state.program), _contract(changed), strict=True
        ):
            if before != after:
                raise UsageError(
                    f"pass {self.name}: it changes the {what}, from {before} to {after}; "
                    "a pass keeps the sizes, inputs, weights, updates and the shapes of results"
                )
        return state if changed is state.program else _Lowered(changed)


CONTRACT = ("sizes", "inputs", "weights", "updates", "results")


def _contract(program: Program) -> tuple[Any, ...]:
    """The properties that callers and later stages rely on, in the order of CONTRACT."""
    results = [program.buffers[name] for name in program.results]
    return (
        [str(size) for size in program.sizes],
        [str(program.buffers[name]) for name in program.inputs],
        [str(program.buffers[name]) for name in program.weights],
        [update.name for update in program.updates],
        [f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]" for buffer in results],
    )


def _name(one: object) -> str:
    """The name of a function, or of the type of another callable."""
    return str(getattr(one, "__name__", type(one).__name__))
