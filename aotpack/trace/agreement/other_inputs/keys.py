"""Dicts whose keys come in another order: Python tells a model the order that torch.export forgets.

Of ``torch.cat([*features.values()])`` a program keeps the order of the example. The model runs on
dicts with permuted keys; where results follow the order, a call takes that of the example alone.
"""

import inspect
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.stages import Signature
from aotpack.trace.agreement.attributes import Attributes
from aotpack.trace.agreement.other_inputs.resized import leaves, random_like, with_leaves
from aotpack.trace.agreement.values import difference
from aotpack.trace.eager import Call, Tensors
from aotpack.trees import Tree

_Group: TypeAlias = frozenset[str]  # the keys of dicts that are permuted together
_Permutation: TypeAlias = Callable[[list[Any]], list[Any]]
_PERMUTATIONS: tuple[_Permutation, ...] = (
    lambda keys: keys[::-1],
    lambda keys: [*keys[1:], *keys[:1]],
)
_MAPPINGS = (dict, OrderedDict, defaultdict)
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD


def with_key_order(
    signature: Signature, model: nn.Module | ExportedProgram, call: Call | None
) -> Signature:
    """The signature, with dicts in the order of the example where results may follow it.

    They may where the ``call`` of the model is None, as it does not run or costs too much. Dicts
    with the same keys are taken together. A program finds its inputs by their keys.
    """
    if isinstance(model, ExportedProgram):
        return signature
    nodes = [node for tree in (signature.args, *signature.kwargs.children) for node in tree.walk()]
    further = _further(signature, model)
    found = dict.fromkeys(_group(node.keys) for node in nodes if _has_order(node))
    groups = [*dict.fromkeys((*found, *[_group(signature.kwargs.keys)] * (len(further) > 1)))]
    if not groups:
        return signature
    free = set[_Group]() if call is None else _free(call, groups)
    kept = further if len(further) > 1 and _group(signature.kwargs.keys) not in free else ()
    kwargs = replace(_in_order(signature.kwargs, free), in_order=kept)
    return replace(signature, args=_in_order(signature.args, free), kwargs=kwargs)


def _group(keys: Iterable[Any]) -> _Group:
    return frozenset(map(str, keys))


def _free(call: Call, groups: Sequence[_Group]) -> set[_Group]:
    """The groups of dicts whose order no result follows."""
    if not _follows(call, groups):
        return {*groups}
    free = [one for one in groups if len(groups) > 1 and not _follows(call, [one])]
    return {*free} if free and not _follows(call, free) else set()  # several together may count


def _further(signature: Signature, model: nn.Module) -> tuple[str, ...]:
    """The keywords that ``**kwargs`` of forward holds."""
    parameters = inspect.signature(model.forward).parameters
    named = {one.name for one in parameters.values() if one.kind is not _VAR_KEYWORD}
    return tuple(key for key in signature.kwargs.keys if key not in named)


def _has_order(node: Tree) -> bool:
    return node.kind == "dict" and len(node.keys) > 1


def _in_order(tree: Tree, free: Container[_Group]) -> Tree:
    children = tuple(_in_order(child, free) for child in tree.children)
    is_kept = _has_order(tree) and _group(tree.keys) not in free
    return replace(tree, children=children, in_order=tree.keys if is_kept else ())


def _follows(call: Call, groups: Sequence[_Group]) -> bool:
    """Whether results are others for permuted keys, on numbers that tell inputs apart.

    True for dicts that no argument has.
    """
    before, met = Attributes({"": call.module}), set[_Group]()

    def results(call: Call, permute: _Permutation) -> Tensors | None:
        def some(keys: list[Any]) -> list[Any]:
            met.add(_group(keys))
            return permute(keys) if _group(keys) in groups else keys

        return _results(call, some)

    try:
        drawn = [random_like(leaf, seed) for seed, leaf in enumerate(leaves(call))]
        tried = with_leaves(call, drawn)
        wanted = results(tried, list)
        if wanted is None:  # numbers that the model refuses
            tried, wanted = call, results(call, list)
        departs = any(_depart(wanted, results(tried, permute)) for permute in _PERMUTATIONS)
        return departs or not met.issuperset(groups)
    finally:
        before.restore()


def _depart(wanted: Tensors | None, found: Tensors | None) -> bool:
    if wanted is None or found is None or len(wanted) != len(found):
        return True
    return any(map(difference, wanted, found))


def _results(call: Call, permute: _Permutation) -> Tensors | None:
    """What the model returns for permuted keys, dicts by sorted keys; None where it raises."""

    def given(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return _permuted(args, permute), _permuted(kwargs, permute)

    def returned(module: nn.Module, args: Any, result: Any) -> Any:
        return _permuted(result, lambda keys: sorted(keys, key=str))

    hooks = (
        call.module.register_forward_pre_hook(given, prepend=True, with_kwargs=True),
        call.module.register_forward_hook(returned),
    )
    try:
        return call.run()
    except TraceError:
        return None
    finally:
        for hook in hooks:
            hook.remove()


def _permuted(value: Any, permute: _Permutation) -> Any:
    """The value with the keys of all dicts in it permuted."""

    def is_mapping(one: Any) -> bool:
        return type(one) in _MAPPINGS

    def permuted(one: Any) -> Any:
        if not is_mapping(one):
            return one
        found = one.copy()
        found.clear()
        found.update((key, _permuted(one[key], permute)) for key in permute([*one]))
        return found

    return pytree.tree_map(permuted, value, is_leaf=is_mapping)
