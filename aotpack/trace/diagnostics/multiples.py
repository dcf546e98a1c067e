"""The multiple or range that a model asks of a size, from the conditions that torch derives."""

import ast
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from aotpack.errors import TraceError

_PLAIN = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Load, ast.Call,
)  # fmt: skip
_WORDS = (ast.Is, ast.IsNot)  # ``n is 8`` of a complaint
_IS_NUMBER = re.compile(r"\w+ is \d+")
_IS_EQUAL = re.compile(r"([^\W\d]\w*) (?:is|==) ([^\W\d]\w*)")
_CALLED = {
    "min": min,
    "max": max,
    "math_floor": math.floor,  # as ``exactly_rounded`` spells these
    "math_ceil": math.ceil,
    "math_trunc": math.trunc,
    "sym_float": float,
}
_ROUNDINGS = re.compile(r"\b(?:(math)\.(floor|ceil|trunc)|torch\.(sym_float))(?=\()")
_MOST = 2**14  # the largest multiple that is found
_MOST_ENOUGH = 256
_UNBOUNDED = 2**30
_LEAST = 2  # which torch does not name as an end of a range
_SHOWN = 3
_OF_ONE_SIZE = r"(?s)\bis \d+\b.*\nat [^\n]*"  # a fact, and a line of the user's
_HINTS = (
    (
        re.compile(r"\bmath\.sqrt\("),
        "math.sqrt(n) is a number of one size; n ** 0.5 is right for all",
    ),
    (
        re.compile(r"\bmath\.(?!sqrt|trunc|floor|ceil)\w+\("),
        "Functions of math give a number of one size; those of torch take a tensor of it",
    ),
    (
        re.compile(r"\bmath\.trunc\(.*==|==.*\bmath\.trunc\("),
        "int(0.6 * n) is a number of one size; math.floor(0.6 * n) and n * 6 // 10 are not",
    ),
    (
        re.compile(r"(?i)unpool(1d|2d|3d)?\((?!.*output_size)"),
        "Of a size that the step of the pool does not divide, unpooling makes another: give it "
        "output_size=y.shape[2:], where y is what was pooled",
    ),
    (
        re.compile(r"\bistft\(.*\blength="),
        "torch.istft takes a plain number as its length; without one it gives hop_length * (frames "
        "- 1) elements, which are all of a centred signal whose size is declared as a multiple of "
        "hop_length",
    ),
    (
        re.compile(r" % \d+\) != 0|not \(.* % \d+\) == 0"),
        "No Dim declares sizes that are no multiples. For multiples forward goes another way, as "
        "by a try that catches an error; a package for these declares them, as 7*Dim('n'), and "
        "has an example that is one",
    ),
    (
        re.compile(_OF_ONE_SIZE + r"\blen\("),
        "len(x) is a number of one size; x.shape[0] is right for all",
    ),
    (
        re.compile(_OF_ONE_SIZE + r"\b(int|float)\([^()]*\b(shape|size)\b"),
        "int(n) and float(n) are numbers of one size; n itself is right for all",
    ),
    (
        re.compile(_OF_ONE_SIZE + r"(\b(np|numpy)\.\w+\(|\btorch\.tensor\()"),
        "Lists, and arrays of numpy, have one size; torch.arange(n) and torch.full((n,), 1.0) are "
        "right for all",
    ),
    (
        re.compile(_OF_ONE_SIZE + r"\brange\("),
        "A loop over range(n) has the steps of one size; the whole tensor at once, or map or scan "
        "of torch._higher_order_ops, is right for all",
    ),
)
"""What asks for some sizes, in conditions or the user's lines, and what to write instead."""


class SomeSizesError(TraceError):
    """The exported program is right for some of the declared sizes alone; another may be for all.

    Refusals of the model itself, which every export repeats, are other errors.
    """


@dataclass(frozen=True, slots=True)
class Declared:
    """A dynamic size: its name, what has it, and its range (None: no such bound)."""

    name: str
    argument: str  # ``x``, or ``xs[0]`` of a tuple
    axis: int
    low: int | None = None
    high: int | None = None

    @property
    def place(self) -> str:
        """What has this size."""
        return f"dimension {self.axis} of argument {self.argument!r}"

    def asked(self, multiple: int, operators: Collection[str], condition: str) -> str:
        """What holds of the sizes that the model takes, in words."""
        by = " and ".join(filter(None, operators))
        by = f", as {by} ask{'s' if len(operators) == 1 else ''}" if by else ""
        return f"{self.name}, {self.place}, is a multiple of {multiple}{by}: {condition}"

    def remedy(self, multiple: int) -> str:
        """How to declare the sizes that the model takes."""
        low = max(2, -(-(self.low or 0) // multiple))
        most = self.high // multiple if self.high and self.high < _UNBOUNDED else None
        part = replace(self, low=low, high=None if most is None or most <= low else most)
        return f"{multiple}*{part.declaration}"

    @property
    def declaration(self) -> str:
        """How to declare this range."""
        is_bounded = self.high is not None and self.high < _UNBOUNDED
        bounds = f"min={self.low or _LEAST}" + (f", max={self.high}" if is_bounded else "")
        return f"Dim({self.name!r}, {bounds}) for {self.place}"

    def limited(self, conditions: Iterable[str]) -> "Declared | None":
        """The range where conditions on this size alone hold; None where they take no end off."""
        codes = [compiled(one, {self.name}) for one in conditions if self.name in one]
        known = [code for code in codes if code is not None]
        low, high = self.low or _LEAST, self.high or _UNBOUNDED
        last = min(high, low + _MOST)
        right = [n for n in range(low, last + 1) if _all_hold(known, self.name, n)]
        if len(right) in (0, last - low + 1) or right[-1] - right[0] >= len(right):
            return None
        return replace(self, low=right[0], high=high if right[-1] == last else right[-1])

    def shown_ends(self, declared: "Declared") -> str:
        """The ends that differ from the range ``declared``."""
        if self.low == self.high:
            return f"{self.name} == {self.low}"
        low, high = declared.low or _LEAST, declared.high or _UNBOUNDED
        ends = [f"{self.name} >= {self.low}"] if self.low != low else []
        ends += [f"{self.name} <= {self.high}"] if self.high != high else []
        return " and ".join(ends)


def compiled(condition: str, names: Collection[str]) -> CodeType | None:
    """The code of a condition on sizes of these names; None for any other text."""
    try:
        tree = ast.parse(exactly_rounded(condition), mode="eval")
    except SyntaxError:  # torch says some of them in words
        return None
    nodes = list(ast.walk(tree))
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    is_plain = all(isinstance(one, _PLAIN) and not isinstance(one, _WORDS) for one in nodes)
    if not is_plain or not found <= {*names, *_CALLED}:
        return None
    return compile(tree, "<size condition>", "eval")


def exactly_rounded(condition: str) -> str:
    """A condition that has all digits of its floats, with what ``compiled`` knows of rounding."""
    return _ROUNDINGS.sub(lambda one: "_".join(filter(None, one.groups())), condition)


def names_in(code: CodeType) -> set[str]:
    """The sizes that a condition reads."""
    return {*code.co_names} - {*_CALLED}


def holds(code: CodeType, sizes: Mapping[str, Any]) -> bool:
    """Whether a condition holds for sizes; one that divides by zero does not."""
    try:
        return bool(eval(code, {"__builtins__": {}, **_CALLED}, dict(sizes)))
    except ZeroDivisionError:
        return False


def multiple_of(name: str, conditions: Iterable[str]) -> tuple[int, str] | None:
    """The multiple that equalities on a size alone ask, with the first; None if they ask else."""
    pairs = [(one, compiled(one, {name})) for one in conditions if "==" in one and name in one]
    codes = [code for _, code in pairs if code is not None]
    first = next((n for n in range(1, _MOST) if codes and _all_hold(codes, name, n)), 1)
    is_found = first > 1 and all(
        _all_hold(codes, name, n) == (n % first == 0) for n in range(1, 4 * first)
    )
    return (first, next(one for one, code in pairs if code is not None)) if is_found else None


def enough_multiple(size: Declared, conditions: Iterable[str]) -> int | None:
    """A multiple for all of which conditions hold, which hold for other sizes too.

    None where there is none, where a condition is about other sizes as well, and where single sizes
    alone are left out.
    """
    pattern = re.compile(rf"(?<!\w){re.escape(size.name)}(?!\w)")
    own = [one for one in conditions if pattern.search(one)]
    codes = [compiled(one, {size.name}) for one in own]
    known = [code for code in codes if code is not None]
    if not known or len(known) < len(codes) or all("!=" in one for one in own):
        return None
    last = min(size.high or _UNBOUNDED, _MOST)
    return next(
        (
            n
            for n in range(2, min(last // 2, _MOST_ENOUGH) + 1)
            if all(_all_hold(known, size.name, at) for at in range(n, last + 1, n))
        ),
        None,
    )


def _all_hold(codes: Iterable[CodeType], name: str, size: int) -> bool:
    return all(holds(code, {name: size}) for code in codes)


def told(
    sizes: Collection[Declared],
    conditions: Mapping[str, str],
    operators: Collection[str],
    lines: Iterable[str],
) -> str:
    """Multiples and ranges of sizes; other conditions with their remarks; the remedies."""
    asked, remedies, known = [], [], set()
    fixed = fixed_sizes(conditions)
    for size in sizes:
        if found := multiple_of(size.name, conditions):
            asked.append(size.asked(found[0], operators, found[1]))
            remedies.append(size.remedy(found[0]))
            known.add(size.name)
        elif part := size.limited(conditions):
            asked.append(f"{part.shown_ends(size)}: {size.name} is {size.place}")
            if part.low == part.high:
                fixed[size.place] = str(part.low)
            else:
                remedies.append(part.declaration)
            known.add(size.name)
        elif multiple := enough_multiple(size, conditions):
            remedies.append(size.remedy(multiple))
    others = [one for one in conditions if compiled(one, known) is None][:_SHOWN]
    places = [
        f"{size.name} is {size.place}"
        for size in sizes
        if any(re.search(rf"(?<!\w){re.escape(size.name)}(?!\w)", one) for one in others)
    ]
    rows = [*asked, *(one + conditions[one] for one in others), *places]
    rows += [f"at {line}" for line in lines]
    remedies += [f"one Dim for {' and '.join(pair)}" for pair in equal_sizes(conditions)]
    return (
        "\n  ".join(rows) + f"\n{_advice(remedies, fixed)}" + _hint("\n".join([*rows, *conditions]))
    )


def _hint(text: str) -> str:
    """What to write instead of what asks for some sizes."""
    found = (hint for pattern, hint in _HINTS if pattern.search(text))
    return "".join(f" {hint}." for hint in found)


def fixed_sizes(conditions: Iterable[str]) -> dict[str, str]:
    """The numbers that sizes are, by the names of these: of ``n is 8`` of a complaint."""
    return dict(one.split(" is ") for one in conditions if _IS_NUMBER.fullmatch(one))


def equal_sizes(conditions: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of sizes that are one: of ``rows is batch`` of a complaint."""
    found = filter(None, map(_IS_EQUAL.fullmatch, conditions))
    return [(one[1], one[2]) for one in found]


def _advice(remedies: Collection[str], fixed: Mapping[str, str]) -> str:
    static = "".join(
        f" Leave {size} out of the dynamic shapes where it is always {number}, or change the line."
        for size, number in fixed.items()
    )
    if remedies:
        return (
            f"Declare {', '.join(remedies)}, and pad or cut before the model what has another "
            f"size; or change the line, or leave the dimension out of the dynamic shapes.{static}"
        )
    return static[1:] or (
        "Accepted is a model that is right for all declared sizes: change the line, or declare a "
        "narrower range or a multiple (2*n), or leave the dimension out of the dynamic shapes."
    )
