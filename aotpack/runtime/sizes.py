"""Size expressions of the manifest: an int, or text in the model's sizes such as ``"2*s + 1"``.

Text is parsed with ``ast``; names, integers, ``+ - * // %``, ``min`` and ``max`` are accepted.
"""

import ast
import operator
from collections.abc import Callable, Mapping

from .errors import PackageError

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
        self.text = str(entry)
        names: list[str] = []
        self._evaluate = _compile(_parse(self.text), self.text, names)
        self.names = tuple(dict.fromkeys(names))
        self.is_name = self.names == (self.text,)
        self.constant = None if self.names else self._evaluate({})

    def __str__(self) -> str:
        return self.text

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value for given sizes."""
        return self._evaluate(values)

    def solve(self, name: str, value: int, known: Mapping[str, int]) -> int | None:
        """Solve ``a*name + c == value`` for ``name``; None if there is no solution."""
        offset = self._evaluate({**known, name: 0})
        slope = self._evaluate({**known, name: 1}) - offset
        if slope == 0 or (value - offset) % slope:
            return None
        found = (value - offset) // slope
        return found if self._evaluate({**known, name: found}) == value else None


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise _unreadable(text, "it is not an expression") from None


def _compile(node: ast.expr, text: str, names: list[str]) -> Evaluate:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        number = node.value
        return lambda values: number
    if isinstance(node, ast.Name):
        name = node.id
        names.append(name)
        return lambda values: values[name]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _compile(node.operand, text, names)
        return lambda values: -inner(values)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        apply = _BINARY[type(node.op)]
        left, right = _compile(node.left, text, names), _compile(node.right, text, names)
        return lambda values: apply(left(values), right(values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _compile_call(node, node.func.id, text, names)
    raise _unreadable(text, f"{type(node).__name__} is not accepted")


def _compile_call(node: ast.Call, function: str, text: str, names: list[str]) -> Evaluate:
    if function not in _CALLS or len(node.args) < 2:
        raise _unreadable(text, f"the call of {function} is not accepted")
    apply = _CALLS[function]
    parts = [_compile(arg, text, names) for arg in node.args]
    return lambda values: apply(*[part(values) for part in parts])


def _unreadable(text: str, reason: str) -> PackageError:
    return PackageError(
        f"reading manifest.json: the size {text!r} cannot be read: {reason}; accepted: sizes, "
        "integers, + - * // %, min and max. The package is damaged or of a newer aotpack: "
        "reinstall it."
    )
