"""The text of a Triton function with its dependences: other functions, constants, imports.

They are found in the function's globals and closure, without importing triton. Values without a
source text are refused by name.
"""

import ast
import builtins
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aotpack.errors import UnsupportedError, a_type
from aotpack.ir.foreign import ENTRY

HEADER = {"triton": "triton", "tl": "triton.language"}  # imports that every kernel's text has
_COMPLETE = '''\
import triton
import triton.language as tl

{source}

@triton.jit
def {name}({parameters}):
    """What a launch passes, and what is the same for all."""
    {function}({arguments})
'''
_FLOAT = re.compile(r"^(b?)fp?(?=\d)")


class TritonSource:
    """Collects definitions in dependence order, under the user's names."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[object, str]] = {}

    def add(self, function: Any) -> str:
        """Collect a jit function; returns its name in the text."""
        name: str = function.fn.__name__
        if self._is_known(name, function):
            return name
        self._made[name] = (function, "")  # ends recursion of mutually recursive functions
        for used, value in _globals_of(function):
            self._define(used, value, name)
        del self._made[name]
        self._made[name] = (function, f"@triton.jit\n{function.src.rstrip()}\n")
        return name

    def text(self) -> str:
        """All definitions, imports first."""
        texts = [text for _, text in self._made.values()]
        short = [text for text in texts if "\n" not in text]
        return (
            "\n".join(sorted(short))
            + "\n\n" * bool(short)
            + "\n\n".join(text for text in texts if "\n" in text)
        )

    def with_entry(self, function: str, parameters: Sequence[tuple[str, str | None]]) -> str:
        """All definitions and a kernel that calls one of them.

        Its parameters are those without a constant value.
        """
        arguments = ", ".join(f"{name}={text or name}" for name, text in parameters)
        return _COMPLETE.format(
            source=self.text(),
            name=ENTRY,
            parameters=", ".join(name for name, text in parameters if text is None),
            function=function,
            arguments=arguments,
        )

    def literal(self, value: Any) -> str | None:
        """The text of a compile-time constant; None if it has none."""
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if value - value == 0 else f"float({str(value)!r})"
        kind = type(value).__name__
        if not type(value).__module__.startswith("triton."):
            return None
        if kind == "constexpr":
            return self.literal(value.value)
        if kind == "dtype":
            return f"tl.{dtype_name(str(value))}"
        return self.add(value) if kind == "JITFunction" else None

    def _define(self, name: str, value: Any, user: str) -> None:
        """Collect a global of a function under its name."""
        if name in HEADER and getattr(value, "__name__", "") == HEADER[name]:
            return
        if hasattr(value, "fn") and hasattr(value, "src") and name == value.fn.__name__:
            self.add(value)
            return
        text = self._definition(name, value)
        if text is None or name in HEADER:
            raise UnsupportedError(
                f"the Triton function {user} uses {name}, {a_type(value)}; accepted are "
                "other Triton functions under their own names, parts of triton, and constants"
            )
        if not self._is_known(name, value):
            self._made[name] = (value, text)

    def _definition(self, name: str, value: Any) -> str | None:
        module = getattr(value, "__module__", None) or ""
        if inspect.ismodule(value):
            known = value.__name__.split(".")[0] == "triton" or value.__name__ == "math"
            return f"import {value.__name__} as {name}" if known else None
        literal = self.literal(value)
        if literal is not None:
            return f"{name} = tl.constexpr({literal})"
        if module.split(".")[0] == "triton" and getattr(value, "__name__", None):
            return f"from {module} import {value.__name__} as {name}"
        return None

    def _is_known(self, name: str, value: object) -> bool:
        if name not in self._made:
            return False
        known, _ = self._made[name]
        same = known is value or (type(known) is type(value) and known == value)
        if not same:
            raise UnsupportedError(
                f"Triton functions of this kernel mean two things by {name}; give one another name"
            )
        return True


def dtype_name(short: str) -> str:
    """Triton's name of a type in triton.language: "fp32" -> "float32", "bf16" -> "bfloat16"."""
    return _FLOAT.sub(lambda match: f"{match[1]}float", short)


def _globals_of(function: Any) -> Iterator[tuple[str, Any]]:
    """The globals a jit function uses, with their values, in order of use."""
    plain = function.fn
    variables = inspect.getclosurevars(plain).nonlocals
    known: Mapping[str, Any] = {**plain.__globals__, **variables}
    (definition,) = ast.parse(function.src).body
    assert isinstance(definition, ast.FunctionDef)
    parts = [*definition.body, *(a.annotation for a in _parameters(definition) if a.annotation)]
    parts += definition.args.defaults
    own = {argument.arg for argument in _parameters(definition)}
    nodes = [node for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)]
    own |= {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    for name in dict.fromkeys(node.id for node in nodes):
        if name in own or (name not in known and hasattr(builtins, name)):
            continue
        if name not in known:
            raise UnsupportedError(f"the Triton function {plain.__name__} uses {name}: undefined")
        yield name, known[name]


def _parameters(definition: ast.FunctionDef) -> list[ast.arg]:
    return [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]
