"""Sizes and indices: canonical integer expressions and the facts about them.

``integers`` has the expressions and their arithmetic, ``facts`` bounds and comparisons,
``division`` the simplification of ``//`` and ``%``.

Division needs facts, and facts are computed with divided expressions. ``integers`` imports neither:
its non-linear operations call the rules that are installed here.
"""

from aotpack.ir.symbolic.division import quotient, rejoin, remainder
from aotpack.ir.symbolic.facts import extremum
from aotpack.ir.symbolic.integers import Int, Rules

Int.rules = Rules(quotient, remainder, extremum, rejoin)
