"""The README of a package, in markdown: its METADATA, and so its page in an index."""

from collections.abc import Iterator, Sequence

from aotpack.emit.names import Identity
from aotpack.emit.platforms import not_on, runs_on
from aotpack.runtime.structures.text import labels
from aotpack.stages import Precompiled, Signature, TensorSpec
from aotpack.trees import Tree
from aotpack.version import __version__

CLASSIFIERS = (
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
)
GPU_CLASSIFIER = "Environment :: GPU :: NVIDIA CUDA :: 12"


def classifiers(precompiled: Precompiled) -> tuple[str, ...]:
    """The classifiers of the package."""
    has_gpu = any(target.arch for target in precompiled.targets)
    return (GPU_CLASSIFIER, *CLASSIFIERS) if has_gpu else CLASSIFIERS


def description_text(
    precompiled: Precompiled, identity: Identity, requires: Sequence[str], weights: str
) -> str:
    """What the package is, what it takes and gives, how to load it, and where it runs."""
    name = identity.name
    targets, host = precompiled.targets, precompiled.host
    methods = precompiled.rendered.entries
    calls = "\n".join(
        f"result = model{method and f'.{method}'}({_call(one.signature)})"
        for method, one in methods.items()
    )
    parts = [
        f"# {name} {identity.version}",
        f"A PyTorch model that aotpack {__version__} compiled ahead of time. It needs no torch and "
        f"no compiler: {_listed(requires)} {'is' if len(requires) == 1 else 'are'} enough.",
        f"```python\nimport {name}\n\nmodel = {name}.load({_LOADED[weights]})\n{calls}\n```",
        f"Arrays of torch, CuPy, numpy and DLPack are accepted. {_WEIGHTS[weights]}".strip(),
        *(part for method, one in methods.items() for part in _tensors(method, one.signature)),
        "## Runs on",
        _bullets(runs_on(targets, host)),
        "## Does not run on",
        _bullets(not_on(targets, host)),
        _verified(name, precompiled),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _tensors(method: str, signature: Signature) -> Iterator[str]:
    """What a method takes and gives."""
    sizes = [f"- `{size.name}`: {size.low} to {_high(size.high)}" for size in signature.sizes]
    yield method and f"## {method}"
    yield _table("argument", signature.inputs, [spec.name for spec in signature.inputs])
    yield _table("output", signature.outputs, labels(signature.result))  # type: ignore[arg-type]
    yield from ["Sizes:", "\n".join(sizes)] if sizes else []


_WEIGHTS = {
    "embed": "",
    "sidecar": "The weights lie in a file beside the wheel: `load(weights=FILE)`.",
    "none": "The package has no weights: `load(weights=FILE)` or a mapping gives them.",
}
_LOADED = {"embed": "", "sidecar": "weights=FILE", "none": "weights=FILE"}
_UNBOUNDED = 2**31 - 1


def _verified(name: str, precompiled: Precompiled) -> str:
    """How to check the package; without golden data there is nothing to compare with."""
    recorded = [one.golden for one in precompiled.rendered.entries.values()]
    if any(one.outputs or one.sampled for one in recorded):
        return (
            f"`python -m {name} verify` checks the answers on this machine, and that nothing is "
            "compiled."
        )
    return "`aotpack verify WHEEL --against MODEL` compares the answers with the model's."


def _high(high: int) -> str:
    return "any size" if high >= _UNBOUNDED else str(high)


def _call(signature: Signature) -> str:
    """The arguments of a call as the model takes them, with the names of the tensors."""
    names = iter([spec.name for spec in signature.inputs])
    given = [_expression(child, names) for child in signature.args.children]
    named = zip(signature.kwargs.keys, signature.kwargs.children, strict=True)
    given += [f"{key}={_expression(child, names)}" for key, child in named]
    return ", ".join(given)


def _expression(tree: Tree, names: Iterator[str]) -> str:
    if tree.kind == "leaf":
        return next(names)
    if tree.kind in ("none", "constant"):
        return repr(tree.value)
    parts = [_expression(child, names) for child in tree.children]
    keyed = zip(tree.keys, parts, strict=False)
    if tree.kind in ("named", "record"):
        return f"{tree.name}({', '.join(f'{key}={part}' for key, part in keyed)})"
    if tree.keys:
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in keyed) + "}"
    if tree.kind == "tuple":
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return f"[{', '.join(parts)}]"


def _table(title: str, specs: Sequence[TensorSpec], names: Sequence[str]) -> str:
    if not specs:
        return ""
    rows = [
        f"| `{name}` | {spec.dtype} | {' x '.join(map(str, spec.shape)) or 'scalar'}"
        f"{', memory order ' + ', '.join(map(str, spec.order)) if spec.order else ''} |"
        for name, spec in zip(names, specs, strict=True)
    ]
    return "\n".join([f"| {title} | type | shape |", "|---|---|---|", *rows])


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _listed(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if names[1:] else names[0]
