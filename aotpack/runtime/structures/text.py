"""Structures of arguments and results as text: where a tensor stands, and how all are nested."""

from collections.abc import Iterator, Mapping, Sequence

from .trees import Tree


def paths(tree: Tree, root: str) -> list[str]:
    """Where each tensor of the argument ``root`` stands, such as ``values[0]`` or ``batch.ids``."""
    if tree.kind == "leaf":
        return [root]
    steps = [f"[{key!r}]" if tree.kind == "dict" else f".{key}" for key in tree.keys]
    steps = steps or [f"[{number}]" for number in range(len(tree.children))]
    pairs = zip(tree.children, steps, strict=True)
    return [path for child, step in pairs for path in paths(child, f"{root}{step}")]


def labels(result: Tree) -> list[str]:
    """What each tensor of the result is called: its key or field, else its number."""
    if result.kind == "leaf":
        return ["output0"]
    keys = result.keys or [f"output{number}" for number in range(len(result.children))]
    pairs = zip(result.children, keys, strict=True)
    return [path for child, key in pairs for path in paths(child, key)]


def structure_text(tree: Tree, tensors: Iterator[str]) -> str:
    """The structure as a caller writes it, with the texts of its tensors."""
    if tree.kind == "leaf":
        return next(tensors)
    if tree.kind in ("none", "constant"):
        return repr(tree.value)
    parts = [structure_text(child, tensors) for child in tree.children]
    if tree.kind == "list":
        return f"[{', '.join(parts)}]"
    if tree.kind == "tuple":
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    pairs = zip(tree.keys, parts, strict=True)
    if tree.kind == "dict":
        return f"{{{', '.join(f'{key!r}: {part}' for key, part in pairs)}}}"
    return f"{tree.name}({', '.join(f'{key}: {part}' for key, part in pairs)})"


def parameters_text(
    args: Tree,
    kwargs: Tree,
    positional: Sequence[str],
    defaults: Mapping[str, object],
    tensors: Iterator[str],
) -> str:
    """The parameters of a call: those that have a place, then those by keyword alone.

    Of ``defaults``, those that stand before others.
    """
    names = (*positional[: len(args.children)], *kwargs.keys)
    parts = zip(names, (*args.children, *kwargs.children), strict=True)
    texts = {name: _parameter_text(name, tree, tensors) for name, tree in parts}
    count = max((place for place, name in enumerate(positional, 1) if name in texts), default=0)
    placed = [
        texts.pop(name) if name in texts else f"{name}={defaults[name]!r}"
        for name in positional[:count]
    ]
    return ", ".join([*placed, *(["*"] if texts else []), *texts.values()])


def _parameter_text(name: str, tree: Tree, tensors: Iterator[str]) -> str:
    text = structure_text(tree, tensors)
    return f"{name}={text}" if tree.kind in ("none", "constant") else f"{name}: {text}"
