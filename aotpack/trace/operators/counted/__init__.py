"""Sizes that data decide.

``ranges`` (as torch.export has them for sizes of 2 or more), ``bindings`` (the calls that yield
them), ``pinned`` (counts that torch.export replaces), ``branches`` (which yield none),
``demand`` (a condition), ``demands`` (of operators), ``numbers`` (their demands of numbers),
``conditions`` (what calls of the package check), ``elements`` (which declared sizes leave, checked
by the build).
"""
