"""Conditions that a model puts on dynamic sizes: which, at what lines, what may be done.

torch's complaint about them comes at the end of an export and names no line. But each condition is
logged where it arises, so the lines are those of the stack at that moment.
"""

import logging
import re
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from aotpack.trace.source import is_user_file, shown_frame

_LOGGER = logging.getLogger("torch.fx.experimental.symbolic_shapes")
_MARK = "[guard added]"
_DIM = re.compile(r"(\w+) = (L(?:\[[^\]]+\])+\.size\(\)\[\d+\])")
_SIZE = re.compile(r"L\['(\w+)'\]((?:\[[^\]]+\])*)\.size\(\)\[(\d+)\]")
_FORMS = (
    (r"You marked (.*) as dynamic .* to be a constant \((\d+)\).*", r"\1 is \2"),
    (r"Not all values of .* satisfy the generated guard (.*?)\.?", r"\1"),
    (r"The values of (\w+) = .* and (\w+) = .* must always be equal\.?", r"\1 is \2"),
)
_SHOWN = 3


class _Lines(logging.Handler):
    """Collects the user's innermost line above ``depth`` frames, once each."""

    def __init__(self, found: dict[str, None], depth: int) -> None:
        super().__init__(logging.INFO)
        self._found, self._depth = found, depth

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        if _MARK in str(record.msg):
            frames = traceback.extract_stack()[self._depth :]
            for frame in [frame for frame in frames if is_user_file(frame.filename)][-1:]:
                self._found.setdefault(shown_frame(frame))


@contextmanager
def lines_with_conditions() -> Iterator[Collection[str]]:
    """Meanwhile the lines are collected, in order; nothing else is made of torch's log of sizes."""
    found: dict[str, None] = {}
    before = _LOGGER.handlers, _LOGGER.level, _LOGGER.propagate, _LOGGER.disabled
    _LOGGER.handlers = [_Lines(found, len(traceback.extract_stack()))]
    _LOGGER.propagate = _LOGGER.disabled = False
    _LOGGER.setLevel(logging.INFO)
    try:
        yield found
    finally:
        _LOGGER.handlers, level, _LOGGER.propagate, _LOGGER.disabled = before
        _LOGGER.setLevel(level)


def size_complaint(text: str, lines: Collection[str]) -> str:
    """torch's complaint that "Constraints violated" in our words, with the user's lines."""
    names = {place: name for name, place in _DIM.findall(text)}

    def named(match: re.Match[str]) -> str:
        return names.get(match[0]) or "{}{}.shape[{}]".format(*match.groups())

    told, _, fixes = text.partition("Suggested fixes:")
    facts = [_SIZE.sub(named, _fact(line)) for line in re.findall(r"^ *- (.*)$", told, re.M)]
    advice = (
        "Accepted is a model that is right for all declared sizes: change the line, or declare a "
        "narrower range or a multiple (2*n), or leave the dimension out of the dynamic shapes."
    )
    suggested = "; ".join(line.strip() for line in fixes.partition("\n\n")[0].split("\n") if line)
    rows = [
        "the model is right only for some of the sizes that were declared, those where",
        *dict.fromkeys(facts[:_SHOWN]),
        *(f"at {line}" for line in lines),
    ]
    return "\n  ".join(rows) + f"\n{advice}" + (f" torch suggests {suggested}" if suggested else "")


def _fact(line: str) -> str:
    """A condition, without torch's words around it."""
    for pattern, form in _FORMS:
        match = re.fullmatch(pattern, line)
        if match:
            return match.expand(form)
    return line
