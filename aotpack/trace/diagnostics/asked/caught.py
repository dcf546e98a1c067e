"""Errors of torch.export that the model catches, and Python's questions about sizes.

A program whose ``try`` catches what only export raises takes another way than eager: ``if
(x < 0).any()`` raises there, as the data are not known. ``isinstance(n, int)`` is False there of a
dynamic size, and is answered as in eager.
"""

import builtins
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import torch
from torch.fx.experimental import sym_node
from torch.overrides import TorchFunctionMode

from aotpack.trace.source import is_own_file

_PACKAGE = str(Path(__file__).parents[2])
_TORCH = str(Path(torch.__file__).parent)
_BETWEEN = tuple(
    f"{_TORCH}/{name}"
    for name in """
    _export/non_strict_utils.py _tensor.py functional.py fx/experimental/proxy_tensor.py
    nn/functional.py nn/modules/ overrides.py
    """.split()
)  # between the user's code and a function of torch
_OF_EXPORT = ("torch._subclasses", "torch._dynamo", "torch._higher_order_ops", "torch.fx")
_NEED_DATA = frozenset("numpy tolist __array__ data_ptr __dlpack__ item".split())
_OTHER_NUMBERS = (int, float, Fraction, Decimal, complex)  # of kinds that torch does not know
_ALIKE: dict[type, Any] = {torch.SymInt: 0, torch.SymFloat: 0.0, torch.SymBool: False}
ADVICE = (
    "\nforward catches this error, which eager does not raise: the program would go another way. "
    "Take the line out of the try, or what follows there out of forward"
)


class CaughtErrors(TorchFunctionMode):
    """Inside the block, ``last`` is the last error of export that reaches the user's own code.

    If the export succeeds, that code has caught it. Errors that eager raises too are no such ones,
    nor those of libraries, which catch errors of export knowingly.
    Those of methods of sizes are noted by ``Branches``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last: Exception | None = None
        self.is_caught = False

    def checked(self, export: Callable[..., Any], *given: Any, **options: Any) -> Any:
        """What ``export`` returns; raises the error that the model caught meanwhile."""
        self.last, self.is_caught = None, False
        with self:
            program = export(*given, **options)
        if self.last is not None:
            self.is_caught = True
            raise self.last
        return program

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            is_of_export = type(error).__module__.startswith(_OF_EXPORT)
            if is_of_export or getattr(func, "__name__", "") in _NEED_DATA:
                self.note(error, sys._getframe(1))
            raise

    def note(self, error: Exception, frame: FrameType | None) -> None:
        """Keep an error that leaves torch in a frame."""
        while frame is not None and _is_between(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not None and is_own_file(frame.f_code.co_filename):
            self.last = error


def _is_between(file: str) -> bool:
    """True for code that passes errors on: ours, arithmetic of sizes, torch's functions."""
    return file.startswith((_PACKAGE, *_BETWEEN)) or file == sym_node.__file__


@contextmanager
def sizes_as_integers() -> Iterator[None]:
    """Inside the block, ``isinstance`` in the user's modules takes dynamic sizes for integers."""
    modules = [one for one in [*sys.modules.values()] if _is_users(one)]
    for one in modules:
        vars(one)["isinstance"] = _isinstance
    try:
        yield
    finally:
        for one in modules:
            vars(one).pop("isinstance", None)


def _is_users(module: object) -> bool:
    if not isinstance(module, ModuleType) or "isinstance" in vars(module):
        return False
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and is_own_file(file) and not file.startswith(_PACKAGE)


def _isinstance(value: Any, kinds: Any) -> bool:
    alike = _ALIKE.get(type(value))
    return builtins.isinstance(value, kinds) or (
        alike is not None and builtins.isinstance(alike, kinds)
    )


def rounded(before: Callable[..., Any], size: Any, digits: int | None) -> Any:
    """``round`` of a size; torch's, which is given, takes any digits for none."""
    if digits is not None and digits < 0:
        raise TypeError(
            f"round(n, {digits}) of a dynamic size is not known to torch.export; write "
            f"(n + {10**-digits // 2}) // {10**-digits} * {10**-digits}, which rounds halves up"
        )
    return before(size)


def with_all_numbers(before: Callable[..., Any]) -> Callable[..., Any]:
    """torch's function that takes an operand, for members of an enum and other integers too."""

    def to_node(node: Any, given: Any) -> Any:
        return before(node, as_plain(given))

    return to_node


def as_plain(given: Any) -> Any:
    """An int or float for a number of another kind that is equal: to torch no size is."""
    if type(given) in (bool, int, float) or not isinstance(given, _OTHER_NUMBERS):
        return given
    real = given.real if isinstance(given, complex) and given.imag == 0 else given
    if isinstance(real, complex) or not math.isfinite(real):
        return given
    return next((kind(real) for kind in (int, float) if kind(real) == real), given)
