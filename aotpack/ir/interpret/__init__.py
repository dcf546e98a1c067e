"""Executable semantics of the loop IR in numpy: the oracle that tests compare with.

``evaluate`` runs a program, ``control`` its branches and loops.
"""
