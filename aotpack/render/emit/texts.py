"""Tables of operator texts: by operator, then by the operand's type or kind of type."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from aotpack.ir.dtypes import DType

Texts: TypeAlias = Mapping[str, Mapping[str, str]]

NUMBERS = ("float", "int", "uint")
INTEGERS = ("int", "uint")
ALL = ("float", "int", "uint", "bool")

LOG2_E = 1.4426950408889634


def on(kinds: Sequence[str], text: str) -> dict[str, str]:
    """One text for several kinds of type."""
    return dict.fromkeys(kinds, text)


def text_for(texts: Texts, op: str, operand: DType) -> str:
    """The text of an operator on operands of a type: the type's own, or that of its kind."""
    found = texts[op].get(str(operand)) or texts[op].get(operand.facts.kind)
    if found is None:
        raise TypeError(f"operator {op} has no form for {operand}")
    return found


COMPARISONS: Texts = {  # both languages spell these alike
    name: on(ALL, f"{{0}} {sign} {{1}}")
    for name, sign in {
        "eq": "==",
        "ne": "!=",
        "lt": "<",
        "le": "<=",
        "gt": ">",
        "ge": ">=",
    }.items()
}
LOGIC: Texts = {
    f"logical_{name}": {
        **on(NUMBERS, f"({{0}} != 0) {sign} ({{1}} != 0)"),
        "bool": f"{{0}} {sign} {{1}}",
    }
    for name, sign in {"and": "&", "or": "|", "xor": "^"}.items()
}
