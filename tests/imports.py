"""The imports of a module, read off its source: wherever they stand, relative ones resolved."""

import ast
from collections.abc import Iterator


def imports(text: str, package: str) -> Iterator[tuple[str, str]]:
    """Each imported module by its full name, with the name taken from it, if any."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            yield from ((base, alias.name) for alias in node.names)
