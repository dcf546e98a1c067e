"""Sizes that data decide.

``bindings`` (the calls that yield them), ``pinned`` (counts that torch.export replaces),
``demands`` (of operators), ``conditions`` (what calls of the package check).
"""
