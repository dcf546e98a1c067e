"""Graph -> Program: each operator call becomes one loop operation, or a few. A file per family."""

from aotpack.lower.program import lower
from aotpack.lower.registry import LOWERINGS

__all__ = ["LOWERINGS", "lower"]
