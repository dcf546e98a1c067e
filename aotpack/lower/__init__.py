"""Lowering: Graph -> Program; each operator call becomes one loop operation or a few.

Modules in reading order: ``program`` (the entry), ``registry`` (operator -> function), ``calls``,
``context`` (the interface of lowering functions), ``builder`` (the program under construction),
``size_reads`` (sizes that data decide), ``decided`` (rounding before decisions), ``values``,
``promotion``, ``reshape``; then the families ``elementwise``, ``reductions``, ``views``,
``indexing``, ``linalg``, ``images``, ``special``, ``control`` and ``foreign``.
"""

from aotpack.lower.program import lower
from aotpack.lower.registry import LOWERINGS, refusal_of

__all__ = ["LOWERINGS", "lower", "refusal_of"]
