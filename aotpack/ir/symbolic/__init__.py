"""Sizes and indices: canonical integer expressions and what is known about them.

``integers`` has the expressions and their arithmetic, ``facts`` the bounds and every question about
sizes, ``division`` the simplification of ``//`` and ``%``.

Division needs facts, and facts are computed with divided expressions. ``integers`` imports neither:
its non-linear operations call the rules that are installed here.
"""

from aotpack.ir.symbolic.division import quotient, rejoin, remainder
from aotpack.ir.symbolic.facts import extremum
from aotpack.ir.symbolic.integers import Int, Rules

Int.rules = Rules(quotient, remainder, extremum, rejoin)
