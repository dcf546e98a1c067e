"""Branches and loops: ``control`` (torch's operators and what they mean), ``bodies`` (their graphs,
with the assertions inside), ``changes`` (what a body may change in place).
"""
