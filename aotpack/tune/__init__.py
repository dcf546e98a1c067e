"""The choice between forms of a launch: measurements, and before them the cost model.

``decisions`` reads a tuning file, ``estimate`` is the cost model.
"""

from aotpack.tune.decisions import read_decisions, unused
from aotpack.tune.estimate import estimate

__all__ = ["estimate", "read_decisions", "unused"]
