"""What decides between forms of a launch: measurements, and before them the cost model."""

from aotpack.tune.decisions import read_decisions, unused

__all__ = ["read_decisions", "unused"]
