"""The conditions on sizes that Python asked for while a model was exported, with their answers.

torch.export takes each dynamic size for 2 or more. What follows from that leaves no guard:
``x.shape[1] == 1`` is False, and ``x.numel() >= 4`` is True for a tensor with two dynamic sizes.
"""

import dis
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import sympy
import torch
from torch import nn
from torch.fx.experimental import sym_node

from aotpack.trace.source import is_user_file

_QUESTIONS = ((torch.SymBool, "__bool__"), (torch.SymBool, "__int__"), (torch.SymInt, "__bool__"))
_LAYERS = str(Path(nn.__file__).parent)
_RAISE = dis.opmap["RAISE_VARARGS"]
_ARITHMETIC = sym_node.__file__


@dataclass(frozen=True, slots=True)
class Contiguous:
    """The question whether a tensor is contiguous."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]

    @property
    def condition(self) -> Any:
        """Each stride is the product of the sizes behind it, but for sizes of 1."""
        found, whole = [], sympy.Integer(1)
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            count, step = (
                x.node.expr if isinstance(x, torch.SymInt) else sympy.Integer(x)
                for x in (size, stride)
            )
            found.append(sympy.Or(sympy.Eq(count, 1), sympy.Eq(step, whole)))
            whole *= count
        return sympy.And(*found)


@dataclass(frozen=True, slots=True)
class Branch:
    """A condition that ``code`` asks for, or a number that it takes for one, with the answer."""

    asked: torch.SymBool | torch.SymInt | Contiguous
    answer: bool
    code: CodeType

    @property
    def condition(self) -> Any:
        """A sympy expression of the symbols that are left: torch learns that some are equal."""
        if isinstance(self.asked, Contiguous):
            return self.asked.condition
        found = self.asked.node.expr
        return sympy.Ne(found, 0) if isinstance(self.asked, torch.SymInt) else found

    def holds(self, sizes: Mapping[Any, int]) -> bool:
        """Whether the answer is right for sizes by symbol; True where they do not decide it."""
        found = self.condition.subs(sizes)
        return not getattr(found, "is_Boolean", False) or bool(found) == self.answer


def _asker(frame: FrameType) -> CodeType:
    """The function that asks; arithmetic asks for the model: ``(n == 2) * 3``."""
    while frame.f_code.co_filename == _ARITHMETIC and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code


@dataclass(slots=True)
class Branches:
    """Inside the block, conditions that the model and torch's layers ask for are ``found``."""

    found: dict[tuple[str, bool, CodeType], Branch] = field(default_factory=dict)
    _undo: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Branches":
        for kind, name in _QUESTIONS:
            before = getattr(kind, name)
            self._undo.callback(setattr, kind, name, before)
            setattr(kind, name, self._noted(before))
        is_contiguous = torch.Tensor.is_contiguous
        torch.Tensor.is_contiguous = self._noted_layout(is_contiguous)  # type: ignore[method-assign]
        self._undo.callback(delattr, torch.Tensor, "is_contiguous")  # its base class has torch's
        return self

    def _noted(self, before: Any) -> Any:
        """A method that asks for a truth, and notes it."""

        def asked(condition: Any) -> Any:
            answer = before(condition)
            self._note(condition, answer, _asker(sys._getframe(1)))
            return answer

        return asked

    def _noted_layout(self, before: Any) -> Any:
        """``Tensor.is_contiguous``, which notes what follows from sizes."""

        def is_contiguous(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            answer = before(tensor, *args, **kwargs)
            if not (args or kwargs) and any(isinstance(one, torch.SymInt) for one in tensor.shape):
                asked = Contiguous(tuple(tensor.shape), tensor.stride())
                self._note(asked, answer, _asker(sys._getframe(1)))
            return answer

        return is_contiguous

    def _note(self, asked: Any, answer: Any, code: CodeType) -> None:
        """Keep a question of the model or of torch's layers."""
        if code.co_filename.startswith((_LAYERS, "<")) or is_user_file(code.co_filename):
            branch = Branch(asked, bool(answer), code)
            self.found.setdefault((str(branch.condition), branch.answer, code), branch)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()


def broken(
    branches: Iterable[Branch], cases: Iterable[Mapping[Any, int]]
) -> Iterator[Mapping[Any, int]]:
    """For each answer that is not right in all cases, the first of those where it is not."""
    tried = list(cases)
    for branch in branches:
        yield from [sizes for sizes in tried if not branch.holds(sizes)][:1]


def raised_behind(
    error: BaseException, branches: Iterable[Branch], sizes: Mapping[Any, int]
) -> bool:
    """Whether code raises an error that asks for a condition whose answer is another for ``sizes``.

    What operators raise does not count, which may be about data.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_code[trace.tb_lasti] != _RAISE:
        return False
    code = trace.tb_frame.f_code
    return any(branch.code is code and not branch.holds(sizes) for branch in branches)
