"""Graph -> Program: every operator call becomes one loop operation, or a few. One file per family."""

from aotpack.lower.program import lower

__all__ = ["lower"]
