"""The conditions on sizes that Python asked for while a model was exported, with their answers.

torch.export takes each dynamic size for 2 or more. What follows from that leaves no guard:
``x.shape[1] == 1`` is False, and ``x.numel() >= 4`` is True for a tensor with two dynamic sizes.
"""

import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from traceback import FrameSummary, extract_stack
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx.experimental import sym_node

from aotpack.trace.diagnostics.asked.caught import (
    CaughtErrors,
    as_plain,
    rounded,
    with_all_numbers,
)
from aotpack.trace.diagnostics.asked.questions import Branch, Contiguous, Unseen
from aotpack.trace.source import is_own_file, is_user_file, same_constants

_QUESTIONS = ((torch.SymBool, "__bool__"), (torch.SymBool, "__int__"), (torch.SymInt, "__bool__"))
_BETWEEN = 5  # frames of torch between a check and what it calls
_NUMBERS = (
    (torch.SymInt, "__int__"),
    (torch.SymInt, "__index__"),
    (torch.SymFloat, "__int__"),
    (torch.SymFloat, "__float__"),
    (torch.SymFloat, "__trunc__"),
    (torch.SymFloat, "__round__"),
)
_COMPARISONS = tuple(
    (kind, f"__{name}__")
    for kind in (torch.SymInt, torch.SymFloat)
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
)
_TEXTS = tuple((kind, "__repr__") for kind in (torch.SymInt, torch.SymFloat, torch.SymBool))
_LAYERS = str(Path(nn.__file__).parent)
_AXES = {  # from the outermost in memory
    (torch.channels_last, 4): (0, 2, 3, 1),
    (torch.channels_last_3d, 5): (0, 2, 3, 4, 1),
}
_EXPORTING = ("torch.export", "aotpack.trace.agreement")
_entered: list["Branches"] = []
_ARITHMETIC = sym_node.__file__
_larger: Callable[..., Any] = torch.sym_max


def _as_maximum(before: Any) -> Any:
    """The absolute value as a maximum, in conditions too: torch has no words for its ranges."""
    return lambda size: _larger(size, -size)


def _asker(frame: FrameType) -> CodeType:
    """The function that asks; arithmetic asks for the model: ``(n == 2) * 3``."""
    while frame.f_code.co_filename == _ARITHMETIC and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code


def is_model(code: CodeType) -> bool:
    """True for code of the model or of torch's layers."""
    return code.co_filename.startswith((_LAYERS, "<")) or is_user_file(code.co_filename)


def _models_frame(frame: FrameType | None) -> FrameType | None:
    """The frame of the model that calls, with few of torch between; None if there is none."""
    for _ in range(_BETWEEN):
        if frame is None or is_model(frame.f_code):
            return frame
        frame = frame.f_back
    return None


@dataclass(slots=True)
class Branches:
    """Inside the block, conditions that the model and torch's layers ask for are ``found``.

    With ``is_strict`` dynamo traces the model: it takes functions by what they are, so none is
    replaced.
    """

    is_strict: bool = False
    found: dict[tuple[str, bool, CodeType], Branch] = field(default_factory=dict)
    caught: CaughtErrors = field(default_factory=CaughtErrors)
    numbers: dict[Any, FrameSummary] = field(default_factory=dict)  # the line, by size
    _open: dict[int, Branch] = field(default_factory=dict)  # by the comparison's id
    _unasked: dict[int, tuple[Any, FrameSummary]] = field(default_factory=dict)  # of data
    _undo: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Branches":
        self._replace(_QUESTIONS, self._noted)
        if not self.is_strict:
            self._replace_functions()
        _entered.append(self)
        self._undo.callback(_entered.remove, self)
        return self

    def _replace(self, methods: Iterable[tuple[Any, str]], noted: Callable[[Any], Any]) -> None:
        for kind, name in methods:
            before = getattr(kind, name)
            self._undo.callback(setattr, kind, name, before)
            setattr(kind, name, noted(before))

    def _replace_functions(self) -> None:
        self._replace(_NUMBERS, self._noted_number)
        self._replace(_TEXTS, self._noted_text)
        formats = [(kind, "__format__") for kind in (torch.SymInt, torch.SymFloat)]
        self._replace(formats, self._noted_format)
        self._replace(_COMPARISONS, self._noted_comparison)
        self._replace([(torch.SymInt, "__round__")], self._noted_round)
        self._replace([(sym_node, "to_node")], with_all_numbers)
        self._replace([(torch.SymInt, "__hash__")], self._noted_hash)
        self._replace([(torch.SymInt, "__abs__")], _as_maximum)
        self._replace([(sym_node.SymNode, "expect_true")], self._noted_check)
        is_contiguous, own = torch.Tensor.is_contiguous, vars(torch.Tensor).get("is_contiguous")
        torch.Tensor.is_contiguous = self._noted_layout(is_contiguous)  # type: ignore[method-assign]
        if own is None:  # its base class has it
            self._undo.callback(delattr, torch.Tensor, "is_contiguous")
        else:
            self._undo.callback(setattr, torch.Tensor, "is_contiguous", own)

    def _noted(self, before: Any) -> Any:
        """A method that asks for a truth, and notes it."""

        def asked(condition: Any) -> Any:
            frame = sys._getframe(1)
            self._open.pop(id(condition), None)
            self._unasked.pop(id(condition), None)
            answer = self._answer(frame, before, condition)
            self.note(condition, answer, _asker(frame))
            return answer

        return asked

    def _noted_number(self, before: Any) -> Any:
        """A method that makes a plain number of a size, and notes it."""

        def made(size: torch.SymInt | torch.SymFloat, *args: Any) -> Any:
            frame = _models_frame(sys._getframe(1))
            expression = size.node.expr
            if frame is not None and expression.free_symbols:
                self.numbers.setdefault(expression, extract_stack(frame, limit=1)[0])
            return self._answer(sys._getframe(1), before, size, *args)

        return made

    def _noted_comparison(self, before: Any) -> Any:
        """A comparison, noted when the user's code makes it: ``(n == 64) is True`` asks nothing."""

        def compared(size: Any, other: Any) -> Any:
            found = before(size, as_plain(other))
            code = sys._getframe(1).f_code
            if isinstance(found, torch.SymBool) and is_own_file(code.co_filename):
                hint = found.node.hint
                if hint is not None:
                    self._open[id(found)] = Branch(found, bool(hint), code, is_open=True)
                elif any(isinstance(one, bool) for one in same_constants(code)):
                    line = extract_stack(sys._getframe(1), limit=1)[0]
                    self._unasked[id(found)] = found, line
            return found

        return compared

    def _noted_round(self, before: Any) -> Any:
        """``round`` of a size, which torch returns as it is, whatever the digits."""

        def asked(size: Any, digits: int | None = None) -> Any:
            return self._answer(sys._getframe(1), rounded, before, size, digits)

        return asked

    def _noted_hash(self, before: Any) -> Any:
        """A size's hash, which fails: the model may catch that."""
        return lambda size: self._answer(sys._getframe(1), before, size)

    def _noted_text(self, before: Any) -> Any:
        """What gives the text of a size, and notes that the user's code asks for it."""

        def text(size: Any) -> Any:
            self._note_text(sys._getframe(1).f_code)
            return before(size)

        return text

    def _noted_format(self, before: Any) -> Any:
        """``f"{n:>4}"``: the text of the example's size, for which its text stands too."""

        def formatted(size: Any, form: str) -> Any:
            self._note_text(sys._getframe(1).f_code)
            hint = size.node.hint
            return before(size, form) if not form or hint is None else format(hint, form)

        return formatted

    def _note_text(self, code: CodeType) -> None:
        if is_own_file(code.co_filename):
            self.note(Unseen(), answer=True, code=code)

    def _answer(self, frame: FrameType, ask: Callable[..., Any], *given: Any) -> Any:
        try:
            return ask(*given)
        except Exception as error:
            self.caught.note(error, frame)
            raise

    def _noted_check(self, expect: Any) -> Any:
        """What ``torch._check`` calls, which notes what the model checks."""

        def expected(node: Any, *args: Any) -> Any:
            frame = _models_frame(sys._getframe(1))
            for key in [k for k, (one, _) in self._unasked.items() if one.node is node]:
                del self._unasked[key]
            if frame is not None:
                asked = torch.SymBool(node)  # type: ignore[no-untyped-call]
                self.note(asked, answer=True, code=frame.f_code)
            return expect(node, *args)

        return expected

    def _noted_layout(self, before: Any) -> Any:
        """``Tensor.is_contiguous``, which notes what follows from sizes."""

        def is_contiguous(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            answer = before(tensor, *args, **kwargs)
            order = args[0] if args else kwargs.get("memory_format", torch.contiguous_format)
            plain = range(tensor.dim()) if order is torch.contiguous_format else None
            axes = _AXES.get((order, tensor.dim()), plain)
            if axes is not None and any(isinstance(one, torch.SymInt) for one in tensor.shape):
                sizes, strides = tensor.shape, tensor.stride()
                asked = Contiguous(*(tuple(one[k] for k in axes) for one in (sizes, strides)))
                self.note(asked, answer, _asker(sys._getframe(1)))
            return answer

        return is_contiguous

    def note(self, asked: Any, answer: Any, code: CodeType) -> None:
        """Keep a question of the model or of torch's layers."""
        if is_model(code):
            branch = Branch(asked, bool(answer), code)
            self.found.setdefault((str(branch.condition), branch.answer, code), branch)

    def unasked(self, program: ExportedProgram) -> FrameSummary | None:
        """The line of a comparison of data that nothing asks for, beside an ``is True``."""
        values = [node.meta.get("val") for node in program.graph.nodes]
        used = {one.node.expr for one in values if isinstance(one, torch.SymBool)}
        found = self._unasked.values()
        return next((line for one, line in found if one.node.expr not in used), None)

    @property
    def noted(self) -> tuple[Branch, ...]:
        """All questions, and comparisons that nothing asked for."""
        return *self.found.values(), *self._open.values()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()


def note_assumed(condition: Any) -> None:
    """Note that a function in place of one of torch's takes a condition on sizes for true.

    It has a number of results that the condition decides. Each function of the user's that has
    called it may ask for that number.
    """
    if not _entered or not isinstance(condition, torch.SymBool):
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _exports(frame):
        if frame.f_code.co_filename.startswith("<") or is_user_file(frame.f_code.co_filename):
            _entered[-1].note(condition, answer=True, code=frame.f_code)
        frame = frame.f_back


def _exports(frame: FrameType) -> bool:
    """True for a frame of what runs the model, whose callers are no part of it."""
    return str(frame.f_globals.get("__name__")).startswith(_EXPORTING)
