"""Conditions that a model puts on dynamic sizes or on data, with the lines that cause them.

torch reports errors about sizes at the end of an export without lines, and errors about data by
symbols. But it logs each condition where it arises and each symbol where a tensor is read; the
stack at that moment has the lines.
"""

import logging
import re
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch._guards import TracingContext

from aotpack.trace.diagnostics.multiples import (
    Declared,
    equal_sizes,
    fixed_sizes,
    multiple_of,
    told,
)
from aotpack.trace.source import is_user_file, shown_frame

_LOGGER = logging.getLogger("torch.fx.experimental.symbolic_shapes")
_MARK = "[guard added]"
_READ = "create_unbacked"
_SIZE_READ = "create_symbol"
_DIM = re.compile(r"(\w+) = (L(?:\[[^\]]+\])+\.size\(\)\[\d+\])")
_SIZE = re.compile(r"L\['(\w+)'\]((?:\[[^\]]+\])*)\.size\(\)\[(\d+)\]")
_FORMS = (
    (r"You marked (.*) as dynamic .* to be a constant \((\d+)\).*", r"\1 is \2"),
    (
        r"Not all values of .* satisfy the generated guard (.*?)(?: and .* <= IntInfinity\(\))?\.?",
        r"\1",
    ),
    (r"The values of (\w+) = .* and (\w+) = .* must always be equal\.?", r"\1 is \2"),
)
_SYMBOL = r"(?<![\w.])(?:s|z?uf)\d+(?!\w)"
_NUMBER = re.compile(r"(?<![\w.])z?uf(\d+)(?!\w)")
_SOLVED = re.compile(r"\.?Specializations unexpectedly required.*\n *- solving the guards .*")
_FIX = re.compile(r" *((\w+) = .*)")  # of a size that has a name
_RANGE = r"in the specified range (?:(\d+) <= )?{}(?: <= (\d+))? satisfy"
_DIVIDES = re.compile(r"(?!Ne\()(?:.*\b(Mod)\(|Eq\(.*//)")  # or follows from such a one
_FIXES = re.compile(r"Eq\((?:\w+, (\d+)|(\d+), \w+)\)")
CONDITIONS = "conditions on sizes"  # in the meta of a graph module


_REQUESTS = (
    (r"Could not guard on data-dependent expression (.*) \(unhinted", "the condition {}"),
    (r"Could not extract .* data-dependent expression (.*) \(unhinted", "the integer {}"),
    (r"Pending unbacked symbols {(\w+)}", "the integer {}"),
    (r"(?s)(?:Data dependent|Dynamic shape) operator.*: (aten\.\S+)", "the result of {}"),
)
_EQUAL = re.compile(r"Eq\(([^,]+), (\w+)\)")
_REMAINDER = re.compile(r"Mod\((\w+), (\w+)\)")
_IS_EMPTY = re.compile(r"the condition [\w*]+ is 0")
_DATA_DEPENDENT = (
    "a Python value in forward is data-dependent: {}. It is read from a tensor, whose data a "
    "package knows only when it is called"
)
_ALTERNATIVES = (
    "Accepted in its place are torch.where (a choice of values), torch.cond and while_loop (a "
    "branch, a loop), torch._assert (a check), and for sizes those of the inputs, or plain numbers."
)
_COUNTED = (
    " A size that data decide is k = n.item(), not int(n), with torch._check(k <= x.shape[0]) for "
    "its range."
)
_OF_FLOAT = ("the integer TruncToInt(", "the integer FloorToInt(", "the integer CeilToInt(")
_A_FLOAT = re.compile(r"the condition zuf\d+")
_AS_A_FACTOR = " float(x.max()) as a factor is x.max(), which stays a tensor."
_TO_A_LIST = (
    " tolist() makes numbers of Python: compute with the tensor, return it, and let callers make "
    "numbers of the result; as an index it stays a tensor."
)
_ROUNDED = (
    " int(x.max().item()) as a factor is x.max().trunc(), which stays a tensor; as a size it is "
    "k = x.max().long().item(), with torch._check(k <= x.shape[0]) for its range."
)
_MAKES_INTEGERS = re.compile(r"\b(int|round|floor|ceil|trunc)\(")
_AT_AN_INDEX = re.compile(r"\]\s*[-+*/]?=(?!=)")
_WRITES = (
    "Accepted in its place is an index that stays a tensor: x[n] = row and x[n] += row with a "
    "tensor n of one integer; n + torch.arange(length) has the indices of a slice of fixed length."
)


@dataclass(frozen=True, slots=True)
class ConditionLog:
    """The user's lines in order: those with conditions, and the read of each symbol.

    ``operators`` are those that divide a size, by their names in torch; "" where none is known.
    ``fixing`` are those for which a size is a number, by that number. ``sizes`` are torch's words
    for sizes of inputs, by its symbols.
    """

    conditions: dict[str, None] = field(default_factory=dict)
    operators: dict[str, None] = field(default_factory=dict)
    fixing: dict[str, dict[str, None]] = field(default_factory=dict)
    reads: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)

    def with_sizes(self, text: str, quoted: Collection[str] = ()) -> str:
        """A text in which ``x.shape[0]`` stands for torch's symbol of that size.

        The user's lines and words that it has ``quoted`` stay. ``number`` stands for a float that
        data decide.
        """

        def named(match: re.Match[str]) -> str:
            if match[0] in quoted:
                return match[0]
            return shown_size(self.sizes.get(match[0], "")) or with_numbers(match[0])

        lines = sorted((one for one in quoted if " " in one), key=len, reverse=True)
        return re.sub("|".join([*map(re.escape, lines), _SYMBOL]), named, text)


class _Lines(logging.Handler):
    """Collects the user's innermost line above ``depth`` frames, once each."""

    def __init__(self, log: ConditionLog, depth: int, operator: Callable[[], str]) -> None:
        super().__init__(logging.INFO)
        self._log, self._depth, self._operator = log, depth, operator

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        if str(record.msg).startswith(_SIZE_READ) and isinstance(record.args, tuple):
            self._log.sizes[str(record.args[0])] = str(record.args[2])
        symbol = _symbol_read(record)
        if symbol is None and _MARK not in str(record.msg):
            return
        frames = traceback.extract_stack()[self._depth :]
        own = [frame for frame in frames if is_user_file(frame.filename)]
        for frame in (own or _of_strict())[-1:]:
            if symbol is None:
                self._log.conditions.setdefault(shown_frame(frame))
            else:
                self._log.reads[symbol] = shown_frame(frame)
        fixed = [_FIXES.fullmatch(str(one)) for one in record.args or ()]
        for one in filter(None, fixed):
            if operator := self._operator():
                self._log.fixing.setdefault(one[1] or one[2], {}).setdefault(operator)
        found = [_DIVIDES.match(str(one)) for one in record.args or ()]
        if any(one and (one[1] or not self._log.operators) for one in found):
            self._log.operators.setdefault(self._operator())


def _of_strict() -> list[traceback.FrameSummary]:
    """The user's frames where dynamo reads the model, which runs none of them."""
    known = TracingContext.try_get()
    frames = TracingContext.extract_stack() if known else traceback.StackSummary()
    return [frame for frame in frames if is_user_file(frame.filename)]


def _symbol_read(record: logging.LogRecord) -> str | None:
    """The symbol of a number read from a tensor, if the record announces one."""
    match record.args:
        case (str(what), symbol, *_) if what.startswith(_READ):
            return str(symbol)
    return None


@contextmanager
def logged_conditions(operator: Callable[[], str]) -> Iterator[ConditionLog]:
    """Collect the lines inside the block; torch's log of sizes has no other handler meanwhile.

    ``operator`` returns the name of the function of torch that runs, or "".
    """
    log = ConditionLog()
    before = _LOGGER.handlers, _LOGGER.level, _LOGGER.propagate, _LOGGER.disabled
    _LOGGER.handlers = [_Lines(log, len(traceback.extract_stack()), operator)]
    _LOGGER.propagate = _LOGGER.disabled = False
    _LOGGER.setLevel(logging.INFO)
    try:
        yield log
    finally:
        _LOGGER.handlers, level, _LOGGER.propagate, _LOGGER.disabled = before
        _LOGGER.setLevel(level)


def with_numbers(text: str) -> str:
    """A text in which ``number`` stands for torch's symbol of a float that data decide."""
    return _NUMBER.sub(lambda match: "number" if match[1] == "0" else f"number_{match[1]}", text)


def data_complaint(text: str, reads: Mapping[str, str], place: Collection[str]) -> str:
    """torch's error about data dependence in our words; "" for other errors.

    ``reads`` are the lines that read symbols, ``place`` is where torch stopped.
    """
    found = [(re.search(pattern, text), form) for pattern, form in _REQUESTS]
    requests = [form.format(_shown(match[1])) for match, form in found if match]
    if not requests and not re.search("data-dependent", text, re.IGNORECASE):
        return ""
    what = requests[0] if requests else text.partition("\n")[0].rstrip(".")
    rows = [_DATA_DEPENDENT.format(what)]
    for name in [name for name in dict.fromkeys(re.findall(r"\w+", what)) if name in reads]:
        rows += [f"{name} is read at {reads[name]}"] if reads[name] not in place else []
    if _IS_EMPTY.fullmatch(what):
        rows.append("an operator of the line asks whether a tensor has no elements")
    accepted = _ALTERNATIVES
    rounds = any(map(_MAKES_INTEGERS.search, place))
    if _A_FLOAT.fullmatch(what) and not rounds:
        rows[0] = _DATA_DEPENDENT.format("a number, or a condition, that is made of a float")
        accepted = _ALTERNATIVES + _AS_A_FACTOR
    elif what.startswith(_OF_FLOAT) or _A_FLOAT.fullmatch(what):
        rows[0] = _DATA_DEPENDENT.format("an integer that is made of a float")
        accepted = _ALTERNATIVES + _ROUNDED
    elif what.startswith("the integer"):
        is_write = any(map(_AT_AN_INDEX.search, place))
        accepted = _WRITES if is_write else _ALTERNATIVES + _COUNTED
    if any(".tolist(" in line for line in place):
        accepted += _TO_A_LIST
    return "\n  ".join([*rows, *(f"at {line}" for line in place)]) + f"\n{accepted}"


def _shown(condition: str) -> str:
    return _EQUAL.sub(r"\1 is \2", _REMAINDER.sub(r"\1 % \2", condition))


def size_complaint(text: str, log: ConditionLog, place: Collection[str]) -> str:
    """torch's error "Constraints violated" in our words, with the user's lines."""
    names = {place: name for name, place in _DIM.findall(text)}

    def named(match: re.Match[str]) -> str:
        return names.get(match[0]) or "{}{}.shape[{}]".format(*match.groups())

    message, _, fixes = text.partition("Suggested fixes:")
    message = _SOLVED.sub("", message) if "generated guard" in message else message
    facts = [_SIZE.sub(named, _fact(line)) for line in re.findall(r"^ *- (.*)$", message, re.M)]
    ones = {f"{name} != 1" for name in names.values()}  # taken beside other sizes
    facts = [fact for fact in facts if fact not in ones] or facts
    sizes = [_declared(name, place, message) for place, name in names.items()]
    conditions = {fact: _fixed_by(fact, log) for fact in facts}
    known = [
        size.name
        for size in sizes
        if multiple_of(size.name, conditions) or size.limited(conditions)
    ]
    known += [
        *fixed_sizes(conditions),
        *(name for pair in equal_sizes(conditions) for name in pair),
    ]
    found = map(_FIX.fullmatch, fixes.partition("\n\n")[0].split("\n"))
    known += [f"_{name}" for name in known]  # of which torch makes multiples
    suggested = "; ".join(one[1] for one in found if one and one[2] not in known)
    end = f" torch suggests {suggested}" if suggested else ""
    return right_for_some(sizes, conditions, log.operators, log.conditions or place) + end


def _fixed_by(fact: str, log: ConditionLog) -> str:
    """The operators for which a size is a number, in words."""
    found = re.fullmatch(r"\w+ is (\d+)", fact)
    operators = log.fixing.get(found[1], {}) if found else {}
    verb = "asks" if len(operators) == 1 else "ask"
    return f", as {' and '.join(operators)} {verb}" if operators else ""


def right_for_some(
    sizes: Collection[Declared],
    conditions: Mapping[str, str],
    operators: Collection[str],
    lines: Collection[str],
) -> str:
    """The refusal of a model for conditions on its sizes."""
    head = "the model is right only for some of the sizes that were declared, those where\n  "
    return head + told(sizes, conditions, operators, lines)


def _declared(name: str, place: str, message: str) -> Declared:
    """A size by its name and its place in torch's words."""
    bounds = re.search(_RANGE.format(name), message)
    low, high = [int(end) if end else None for end in (bounds.groups() if bounds else ("", ""))]
    return Declared(name, *place_of(place), low, high)


def shown_size(words: str) -> str | None:
    """``x.shape[0]`` of torch's words for a size of an input; None for other words."""
    found = _SIZE.fullmatch(words)
    return "{}{}.shape[{}]".format(*found.groups()) if found else None


def place_of(size: str) -> tuple[str, int]:
    """The argument and the axis of a size in torch's words."""
    found = _SIZE.fullmatch(size)
    assert found is not None
    argument, path, axis = found.groups()
    return argument + path, int(axis)


def _fact(line: str) -> str:
    """A condition without torch's surrounding text."""
    for pattern, form in _FORMS:
        match = re.fullmatch(pattern, line)
        if match:
            return match.expand(form)
    return line
