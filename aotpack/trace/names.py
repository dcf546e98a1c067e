"""One name for each tensor of a package whose methods name their weights alone.

A tensor is one view of one memory, or the bytes of a constant that no method changes. A name that
means different tensors in two methods gets the method's name in front.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from aotpack.errors import UnsupportedError
from aotpack.ir.graph import Arg, every_node
from aotpack.stages import Body, Golden, Graph, GraphNode, Recorded, Ref, Traced, Weight
from aotpack.trace.layers.adapters import is_factor
from aotpack.trace.weights import Memory, overlapping

OwnNames: TypeAlias = Mapping[str, Memory]
"""The memory behind each name of a method: parameters, buffers, constants."""

Methods: TypeAlias = Mapping[str, tuple[Traced, OwnNames]]


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor of the package: its name, all its names, and whether no state_dict has it.

    It ``shares`` memory with the tensors of these names.
    """

    name: str
    names: tuple[str, ...]
    is_constant: bool
    shares: tuple[str, ...] = ()


def with_common_names(package: str, methods: Methods) -> dict[str, Traced]:
    """The products of all methods with the package's names of weights."""
    memory = {method: _tensors(*one) for method, one in methods.items()}
    _check_views(package, methods, memory)
    _merge_constants(methods, memory)
    labels = _labels(memory)
    tensors = _named(methods, memory, labels)
    return {
        method: _renamed(
            traced,
            {name: tensors[key] for name, key in memory[method].items() if key in tensors},
            labels[method],
        )
        for method, (traced, _) in methods.items()
    }


def _tensors(traced: Traced, own: OwnNames) -> dict[str, Memory]:
    """What each name of a weight, and each unused one of a state_dict, stands for."""
    graph = traced.graph
    names = [name for weight in graph.weights for name in weight.names]
    return {name: own[name] for name in (*names, *graph.signature.unused)}


def _check_views(
    package: str, methods: Methods, memory: Mapping[str, Mapping[str, Memory]]
) -> None:
    """Refuse two views of one memory that a method changes: each would have its own copy."""
    used = [(m, w.name) for m, (one, _) in methods.items() for w in one.graph.weights]
    by_start: dict[object, dict[Memory, tuple[str, str]]] = {}
    for method, name in used:
        key = memory[method][name]
        if len(key) > 1:
            by_start.setdefault(key[0], {}).setdefault(key, (method, name))
    changed = {
        memory[method][name]
        for method, (one, _) in methods.items()
        for name in one.graph.signature.updates
        if name in memory[method]
    }
    for views in by_start.values():
        if len(views) > 1 and changed & views.keys():
            (first, a), (second, b) = list(views.values())[:2]
            raise UnsupportedError(
                f"tracing {package}: {a} of {first} and {b} of {second} are different views of one "
                "memory, and a method changes it. Give each its own memory, or use one view in "
                "all methods."
            )


def _merge_constants(methods: Methods, memory: Mapping[str, dict[str, Memory]]) -> None:
    """Constants that no call, state_dict or adapter changes are one if their bytes are."""
    kept: set[Memory] = set()
    for method, (traced, _) in methods.items():
        own = memory[method]
        signature, weights = traced.graph.signature, traced.graph.weights
        names = [name for one in weights if not one.is_constant for name in one.names]
        names += [*signature.unused, *(name for name in signature.updates if name in own)]
        names += [name for one in weights for name in one.names if is_factor(name)]
        kept.update(own[name] for name in names)
    for method, (traced, _) in methods.items():
        for weight in traced.graph.weights:
            if memory[method][weight.name] not in kept:
                digest = hashlib.sha256(weight.data).hexdigest()
                content = ("constant", str(weight.dtype), weight.shape, digest)
                memory[method].update(dict.fromkeys(weight.names, content))


def _labels(memory: Mapping[str, Mapping[str, Memory]]) -> dict[str, dict[str, str]]:
    """The package's spelling of each method's names: the method in front where two clash."""
    meanings: dict[str, set[Memory]] = {}
    for own in memory.values():
        for name, key in own.items():
            meanings.setdefault(name, set()).add(key)
    found: dict[str, dict[str, str]] = {}
    for method, own in memory.items():
        prefix = method
        while any(name.startswith(f"{prefix}.") for name in meanings):
            prefix += "_"
        found[method] = {n: n if len(meanings[n]) == 1 else f"{prefix}.{n}" for n in own}
    return found


def _named(
    methods: Methods,
    memory: Mapping[str, Mapping[str, Memory]],
    labels: Mapping[str, Mapping[str, str]],
) -> dict[Memory, _Tensor]:
    """Each tensor that a method uses, with its names in order of the methods."""
    used = [(m, n) for m, (one, _) in methods.items() for w in one.graph.weights for n in w.names]
    names: dict[Memory, dict[str, None]] = {}
    for method, name in used:
        names.setdefault(memory[method][name], {})[labels[method][name]] = None
    persistent = set()
    for method, (traced, _) in methods.items():
        for name in traced.graph.signature.unused:
            key = memory[method][name]
            persistent.add(key)
            if key in names:
                names[key][labels[method][name]] = None
        weights = (one for one in traced.graph.weights if not one.is_constant)
        persistent.update(memory[method][one.name] for one in weights)
    taken = {method: _taken(traced.graph) for method, (traced, _) in methods.items()}
    found = {}
    for key, spelled in names.items():
        users = [taken[m] for m, (one, _) in methods.items() if _uses(one.graph, memory[m], key)]
        name = _free(spelled, users, next(m for m, n in used if memory[m][n] == key))
        found[key] = _Tensor(name, (*spelled,), key not in persistent)
    shares = overlapping({one.name: key for key, one in found.items()})
    return {key: replace(one, shares=shares.get(one.name, ())) for key, one in found.items()}


def _uses(graph: Graph, own: Mapping[str, Memory], key: Memory) -> bool:
    return any(own[weight.name] == key for weight in graph.weights)


def _taken(graph: Graph) -> frozenset[str]:
    """The names of what is no weight."""
    signature = graph.signature
    tensors = [spec.name for spec in (*signature.inputs, *signature.outputs)]
    sizes = [size.name for size in signature.sizes]
    sizes += [one.size.name for one in signature.counted]
    words = [one.word for one in signature.assertions]
    return frozenset([*tensors, *sizes, *words, *(node.name for node in every_node(graph.nodes))])


def _free(names: Iterable[str], users: Collection[frozenset[str]], method: str) -> str:
    """The first name that nothing else of its users has; behind a dot no other is."""
    first = next(iter(names))
    free = (name for name in names if not any(name in taken for taken in users))
    return next(free, f"{method}.{first}")


def _renamed(traced: Traced, tensors: Mapping[str, _Tensor], labels: Mapping[str, str]) -> Traced:
    """A method's product; ``tensors`` are by the method's own names."""
    graph = traced.graph
    names = {weight.name: tensors[weight.name].name for weight in graph.weights}
    weights = {
        names[weight.name]: _weight(weight, tensors[weight.name]) for weight in graph.weights
    }
    signature = replace(
        graph.signature,
        updates=tuple(names.get(name, name) for name in graph.signature.updates),
        unused=tuple(labels[name] for name in graph.signature.unused),
    )
    renamed = Graph(
        signature,
        tuple(weights.values()),
        tuple(_node(node, names) for node in graph.nodes),
        tuple(_ref(ref, names) for ref in graph.outputs),
        tuple((names.get(name, name), _ref(ref, names)) for name, ref in graph.updates),
    )
    return replace(traced, graph=renamed, golden=_golden(traced.golden, names))


def _weight(weight: Weight, tensor: _Tensor) -> Weight:
    return replace(
        weight,
        name=tensor.name,
        names=tensor.names,
        is_constant=tensor.is_constant,
        shares=tensor.shares,
    )


def _ref(ref: Ref, names: Mapping[str, str]) -> Ref:
    return Ref(names[ref.name], ref.output) if ref.name in names else ref


def _arg(arg: Arg, names: Mapping[str, str]) -> Arg:
    if isinstance(arg, tuple):
        return tuple(_arg(part, names) for part in arg)
    return _ref(arg, names) if isinstance(arg, Ref) else arg


def _node(node: GraphNode, names: Mapping[str, str]) -> GraphNode:
    return replace(
        node,
        args=tuple(_arg(arg, names) for arg in node.args),
        kwargs=tuple((key, _arg(arg, names)) for key, arg in node.kwargs),
        bodies=tuple(
            Body(
                tuple(_node(inner, names) for inner in body.nodes),
                tuple(_arg(one, names) for one in body.outputs),
                body.slices,
            )
            for body in node.bodies
        ),
    )


def _golden(golden: Golden, names: Mapping[str, str]) -> Golden:
    """The golden data with the names of what is changed."""

    def spelled(path: str) -> str:
        head, found, name = path.rpartition("updates/")
        return f"{head}{found}{names.get(name, name)}" if found else path

    def recorded(tensors: Iterable[Recorded], prefix: str = "") -> tuple[Recorded, ...]:
        return tuple(
            (spelled(prefix + name).removeprefix(prefix), dtype, shape, data)
            for name, dtype, shape, data in tensors
        )

    return replace(
        golden,
        updates=recorded(golden.updates, "updates/"),
        limits=recorded(golden.limits),
        sampled=tuple(replace(one, name=spelled(one.name)) for one in golden.sampled),
    )
