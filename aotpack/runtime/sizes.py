"""Size expressions of the manifest: an int, or text in the model's sizes such as ``"2*s + 1"``.

Text is parsed with ``ast``; names, integers, ``+ - * // %``, ``min`` and ``max`` are accepted.
"""

import ast
import operator
from collections.abc import Callable, Mapping

from .errors import PackageError
from .files.schema import Mismatch, shown

_LONGEST, _DEEPEST, _LARGEST = 100_000, 300, 1 << 63
Evaluate = Callable[[Mapping[str, int]], int]

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[..., int]] = {"min": min, "max": max}


class Size:
    """One dimension: a number, a size's name, or a formula over sizes."""

    __slots__ = ("_evaluate", "constant", "is_name", "names", "text")

    def __init__(self, entry: int | str) -> None:
        if type(entry) not in (int, str):
            raise Mismatch(shown(entry), "an integer, or a size expression as text")
        self.text = str(entry)
        if len(self.text) > _LONGEST:
            raise _unreadable(self.text, f"it has {len(self.text)} characters of {_LONGEST}")
        names: list[str] = []
        self._evaluate = _compile(_parse(self.text), self.text, names)
        self.names = tuple(dict.fromkeys(names))
        self.is_name = self.names == (self.text,)
        try:
            self.constant = None if self.names else self._evaluate({})
        except ZeroDivisionError:
            raise _unreadable(self.text, "it divides by zero") from None

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value for given sizes."""
        try:
            return self._evaluate(values)
        except ZeroDivisionError:
            raise PackageError(
                f"evaluating the size {self.text}: it divides by zero for {dict(values)}. The "
                "package is damaged: reinstall it."
            ) from None

    def solve(self, name: str, value: int, known: Mapping[str, int]) -> int | None:
        """Solve ``a*name + c == value`` for ``name``; None if there is no solution."""
        offset = self.evaluate({**known, name: 0})
        slope = self.evaluate({**known, name: 1}) - offset
        if slope == 0 or (value - offset) % slope:
            return None
        found = (value - offset) // slope
        return found if self.evaluate({**known, name: found}) == value else None


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unreadable(text, "it is not an expression") from None


def _compile(node: ast.expr, text: str, names: list[str], depth: int = 0) -> Evaluate:
    if depth == _DEEPEST:
        raise _unreadable(text, f"it is nested deeper than {_DEEPEST}")
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value < _LARGEST:
        number = node.value
        return lambda values: number
    if isinstance(node, ast.Name):
        name = node.id
        names.append(name)
        return lambda values: values[name]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _compile(node.operand, text, names, depth + 1)
        return lambda values: -inner(values)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        apply = _BINARY[type(node.op)]
        left = _compile(node.left, text, names, depth + 1)
        right = _compile(node.right, text, names, depth + 1)
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and _is_zero(node.right):
            raise _unreadable(text, "it divides by zero")
        return lambda values: apply(left(values), right(values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _compile_call(node, node.func.id, text, names, depth)
    raise _unreadable(text, f"{type(node).__name__} is not accepted")


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _compile_call(
    node: ast.Call, function: str, text: str, names: list[str], depth: int
) -> Evaluate:
    if function not in _CALLS or len(node.args) < 2:
        raise _unreadable(text, f"the call of {function} is not accepted")
    apply = _CALLS[function]
    parts = [_compile(arg, text, names, depth + 1) for arg in node.args]
    return lambda values: apply(*[part(values) for part in parts])


def _unreadable(text: str, reason: str) -> Mismatch:
    return Mismatch(
        f"{shown(text)}, which cannot be read: {reason}",
        "sizes, integers, + - * // %, min and max",
    )
