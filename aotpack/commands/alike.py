"""Compares a model with the signature of a wheel: names, structures, types and shapes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aotpack.emit.manifest import signature_facts
from aotpack.errors import UsageError, VerifyError
from aotpack.ir.names import TABLES
from aotpack.runtime.checks.guards import Seen, check_dimensions, check_ranges, sizes_of
from aotpack.runtime.errors import ArgumentError
from aotpack.runtime.files.schema import read_record
from aotpack.runtime.manifest import Signature
from aotpack.runtime.structures.text import parameters_text, structure_text
from aotpack.runtime.structures.trees import Tree
from aotpack.runtime.tensors import Tensor, Weight
from aotpack.stages import Traced

Shapes: TypeAlias = Sequence[tuple[int, ...]]
_SHOWN = 3  # names
_KINDS = {"named": "a named tuple", "record": "a dataclass", "object": "a mapping with attributes"}


def check_alike(doing: str, wheel: Signature, model: str, traced: Traced) -> None:
    """UsageError for a model that takes something else, VerifyError for other results.

    ``doing`` starts each error, ``model`` names the model. Its example inputs decide the sizes.
    """
    facts = {"name": "model", "version": "0", **signature_facts(traced.graph.signature)}
    pair = _Pair(doing, wheel, model, read_record(Signature, facts))
    sizes = pair.check_inputs([shape for _, _, shape, _ in traced.golden.inputs])
    pair.check_outputs([shape for _, _, shape, _ in traced.golden.outputs], sizes)


def check_weights(doing: str, wheel: Sequence[Weight], model: str, traced: Traced) -> None:
    """UsageError for a model without weights that the wheel has, as quantised ones."""
    known = {name for one in traced.graph.weights for name in (one.name, *one.names)}
    own = (one for one in wheel if not one.name.startswith(TABLES))
    lacking = [one.name for one in own if known.isdisjoint((one.name, *one.names))]
    if lacking:
        raise UsageError(
            f"{doing}: its weights include {', '.join(lacking[:_SHOWN])}, which {model} lacks. "
            "Give the model it was built of, with the --quantize of the build if it had one"
        )


@dataclass(frozen=True)
class _Pair:
    """The signature of a wheel, and that of a model."""

    doing: str
    wheel: Signature
    model: str
    traced: Signature

    def check_inputs(self, shapes: Shapes) -> dict[str, int]:
        """The sizes of the wheel for the example inputs of a model that takes what it takes."""
        sides = (self.wheel, self.traced)
        for what, names in (
            ("its inputs are", [", ".join(one.name for one in side.inputs) for side in sides]),
            ("it changes", [", ".join(side.updates) for side in sides]),
            ("it takes", [_takes(side) for side in sides]),
        ):
            if names[0] != names[1]:
                raise UsageError(self._told(what, names[0] or "none", names[1] or "none"))
        for ours, theirs, shape in zip(self.wheel.inputs, self.traced.inputs, shapes, strict=True):
            if ours.dtype != theirs.dtype or len(ours.shape) != len(shape):
                what = f"its argument {self.wheel.path_of(ours)!r} is"
                raise UsageError(self._told(what, ours.type_text(), _type_text(theirs, shape)))
        try:
            sizes = sizes_of(self.wheel, shapes)
            check_ranges(self.wheel, sizes)
            seen = [Seen("numpy", shape, "", (1, 0), True) for shape in shapes]
            check_dimensions(self.wheel, seen, sizes)
        except ArgumentError as error:
            raise UsageError(f"{self.doing} with the inputs of {self.model}: {error}") from None
        return sizes

    def check_outputs(self, shapes: Shapes, sizes: dict[str, int]) -> None:
        """The results have the structure, types and shapes of the wheel's; data decide others."""
        sides = (self.wheel, self.traced)
        for what, texts in (
            ("it returns", [_gives(side) for side in sides]),
            ("in its result are", [", ".join(_classes(side.result)) for side in sides]),
        ):
            if texts[0] != texts[1]:
                raise VerifyError(self._told(what, texts[0], texts[1]))
        known = dict(sizes)
        pairs = zip(self.wheel.outputs, self.traced.outputs, strict=True)
        for number, (ours, theirs) in enumerate(pairs):
            shape = shapes[number] if shapes else None  # golden data may lack results
            if ours.dtype != theirs.dtype or not _admits(ours, theirs, shape, known):
                what = f"its result {self.wheel.labels[number]!r} is"
                raise VerifyError(self._told(what, ours.type_text(), _type_text(theirs, shape)))

    def _told(self, what: str, ours: str, theirs: str) -> str:
        return (
            f"{self.doing}: {what} {ours}; {self.model} has {theirs}. Give the model it was built "
            "of, with the same --dtype as the build"
        )


def _admits(
    ours: Tensor, theirs: Tensor, shape: tuple[int, ...] | None, known: dict[str, int]
) -> bool:
    """Whether the shape is the wheel's; adds the sizes that data decide to ``known``."""
    if shape is None or len(ours.shape) != len(theirs.shape):
        return len(ours.shape) == len(theirs.shape)
    for size, found in zip(ours.shape, shape, strict=True):
        if size.is_name:
            known.setdefault(size.text, found)
    return all(
        size.evaluate(known) == found
        for size, found in zip(ours.shape, shape, strict=True)
        if known.keys() >= {*size.names}
    )


def _type_text(tensor: Tensor, shape: tuple[int, ...] | None) -> str:
    return tensor.type_text() if shape is None else f"{tensor.dtype}{[*shape]}"


def _takes(side: Signature) -> str:
    """The parameters with all that is fixed in them; tensors by name."""
    names = iter(tensor.name for tensor in side.inputs)
    return parameters_text(side.args, side.kwargs, side.positional, side.defaults, names)


def _classes(tree: Tree) -> Iterator[str]:
    """The classes in a structure, whose text does not tell their kinds."""
    if tree.kind in _KINDS:
        yield f"{tree.name}, {_KINDS[tree.kind]} of {', '.join(tree.attributes) or 'nothing'}"
    for child in tree.children:
        yield from _classes(child)


def _gives(side: Signature) -> str:
    """The structure of the result, with the name of each tensor."""
    return structure_text(side.result, iter(side.labels))
