"""Numbers that forward draws from the generators of Python and numpy.

An export keeps those of the build. Where eager's results follow them, the model is refused; a draw
that shows in no result, such as one that decides in training alone, is accepted.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from aotpack.trace.agreement.exported import AnotherFunction
from aotpack.trace.agreement.second_call import disagreement, run_apart
from aotpack.trace.eager import Call

_RUNS = 24  # a branch that is taken one time in four is missed once in a thousand builds


class Generators:
    """The global generators of Python and numpy, as they are when this is made."""

    def __init__(self) -> None:
        self._states = _states()

    def drawn(self) -> list[str]:
        """The modules whose generators have drawn since."""
        return [name for name, state in _states().items() if state != self._states[name]]


def check_draws(call: Call, drawn: list[str]) -> None:
    """Refuse a model whose results follow what it draws from the generators ``drawn``."""
    if not drawn:
        return
    with _kept():
        first = run_apart(call, _begun(0))
        for seed in range(1, _RUNS):
            found = run_apart(call, _begun(seed))
            how = disagreement(call, first, found, "a call that draws other numbers")
            if how:
                raise AnotherFunction(
                    f"tracing {call.signature.name}: forward draws from {' and '.join(drawn)}, and "
                    f"a package would keep the numbers of its build: {how}. Draw with torch "
                    "(torch.rand, torch.randint), or take the numbers as an argument."
                )


@contextmanager
def _begun(seed: int) -> Iterator[None]:
    """Inside the block, the generators of Python and numpy begin with ``seed``."""
    random.seed(seed)
    np.random.seed(seed)
    yield


@contextmanager
def _kept() -> Iterator[None]:
    """The generators go on after the block as if nothing had drawn in it."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _states() -> dict[str, Any]:
    _, numbers, *places = np.random.get_state(legacy=True)
    return {"random": random.getstate(), "numpy.random": (np.asarray(numbers).tobytes(), places)}
