"""Dicts whose keys come in another order: Python tells a model the order that torch.export forgets.

Of ``torch.cat([*features.values()])`` a program keeps the order of the example. The model runs on
turned dicts; where results follow the order, a call takes that of the example alone.
"""

import inspect
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from aotpack.errors import TraceError
from aotpack.stages import Signature
from aotpack.trace.agreement.attributes import Attributes
from aotpack.trace.agreement.other_inputs.resized import leaves, with_leaves
from aotpack.trace.agreement.values import difference
from aotpack.trace.eager import Call, Tensors
from aotpack.trace.operators.random.seeds import is_random
from aotpack.trees import Tree

_Turn: TypeAlias = Callable[[list[Any]], list[Any]]
_TURNS: tuple[_Turn, ...] = (lambda keys: keys[::-1], lambda keys: [*keys[1:], *keys[:1]])
_MAPPINGS = (dict, OrderedDict, defaultdict)
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD


def with_key_order(signature: Signature, model: Any, call: Call | None) -> Signature:
    """The signature, with dicts in the order of the example where results may follow it.

    They may where the ``call`` of the model is None, as it does not run, or draws numbers.
    """
    nodes = (node for tree in (signature.args, *signature.kwargs.children) for node in tree.walk())
    by_name = len(_further(signature, model)) > 1
    if not by_name and not any(map(_has_order, nodes)):
        return signature
    if call is not None and not is_random(call.program) and not _follows(call):
        return signature
    kwargs = replace(_in_order(signature.kwargs), in_order=by_name)
    return replace(signature, args=_in_order(signature.args), kwargs=kwargs)


def _further(signature: Signature, model: Any) -> list[str]:
    """The keywords that ``**kwargs`` of forward holds; those of a program are parameters."""
    if not isinstance(model, nn.Module):
        return []
    parameters = inspect.signature(model.forward).parameters
    named = {one.name for one in parameters.values() if one.kind is not _VAR_KEYWORD}
    return [key for key in signature.kwargs.keys if key not in named]


def _has_order(node: Tree) -> bool:
    return node.kind == "dict" and len(node.keys) > 1


def _in_order(tree: Tree) -> Tree:
    children = tuple(map(_in_order, tree.children))
    return replace(tree, children=children, in_order=_has_order(tree))


def _follows(call: Call) -> bool:
    """Whether results are others for dicts in other orders, on numbers that tell inputs apart."""
    before = Attributes({"": call.module})
    try:
        drawn = with_leaves(call, [*_drawn(call)])
        tried = drawn if _results(drawn, list) is not None else call
        wanted = _results(tried, list)
        return any(_depart(wanted, _results(tried, turn)) for turn in _TURNS)
    finally:
        before.restore()


def _depart(wanted: Tensors | None, found: Tensors | None) -> bool:
    if wanted is None or found is None or len(wanted) != len(found):
        return True
    return any(map(difference, wanted, found))


def _results(call: Call, turn: _Turn) -> Tensors | None:
    """What the model returns for turned dicts; None where it raises."""

    def turned(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return _turned(args, turn), _turned(kwargs, turn)

    hook = call.module.register_forward_pre_hook(turned, prepend=True, with_kwargs=True)
    try:
        return call.run()
    except TraceError:
        return None
    finally:
        hook.remove()


def _turned(value: Any, turn: _Turn) -> Any:
    kind = type(value)
    if kind in (tuple, list):
        return kind(_turned(one, turn) for one in value)
    if kind not in _MAPPINGS:
        return value
    found = value.copy()
    found.clear()
    found.update((key, _turned(value[key], turn)) for key in turn([*value]))
    return found


def _drawn(call: Call) -> Iterator[Any]:
    """Other numbers for each input: those of an example are often all zero."""
    for number, leaf in enumerate(leaves(call)):
        if not isinstance(leaf, torch.Tensor) or leaf.is_complex() or not leaf.numel():
            yield leaf
            continue
        draw, shape = np.random.default_rng(number), tuple(leaf.shape)
        if leaf.is_floating_point():
            yield torch.from_numpy(draw.standard_normal(shape)).to(leaf.dtype)
        else:
            most = max(1, min(int(leaf.max()), 2**31))
            yield torch.from_numpy(draw.integers(0, most + 1, shape)).to(leaf.dtype)
