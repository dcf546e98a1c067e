"""Names that generated text reserves: no size of the model may have one."""

import builtins
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = r"^\s*(?:for |def )?([A-Za-z_]\w*"
_GIVEN = re.compile(_NAME + r"(?:, [A-Za-z_]\w*)*)(?:: [\w.]+)?(?: [-+*]?= | in |\()", re.MULTILINE)
_NUMBERED = re.compile(_NAME + r")\{\{[^}]*\}\}(?:: [\w.]+)? [-+*]?= ", re.MULTILINE)
_DEFINED = re.compile(r"^def ([A-Za-z_]\w*)\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reserved:
    """Reserved words, and patterns of numbered or composed names."""

    words: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()

    def __contains__(self, name: object) -> bool:
        text = str(name)
        return text in self.words or any(re.fullmatch(one, text) for one in self.patterns)

    def __or__(self, other: "Reserved") -> "Reserved":
        return Reserved(self.words | other.words, (*self.patterns, *other.patterns))


PYTHON_NAMES = Reserved(frozenset([*keyword.kwlist, *keyword.softkwlist, *dir(builtins)]))


def given_names(texts: Iterable[str]) -> Reserved:
    """The names that Python texts, or templates of them, assign or call.

    A template fills in the numbers that end some of them.
    """
    texts = tuple(texts)
    targets = (found for text in texts for found in _GIVEN.findall(text))
    words = frozenset(name for found in targets for name in found.split(", "))
    numbered = {found for text in texts for found in _NUMBERED.findall(text)}
    return Reserved(words, tuple(rf"{name}\d*" for name in sorted(numbered)))


def defined_names(texts: Iterable[str]) -> Reserved:
    """The functions that Python texts define; their bodies do not see sizes of the model."""
    return Reserved(frozenset(name for text in texts for name in _DEFINED.findall(text)))
