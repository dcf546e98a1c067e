"""Assertions on data in forward: left out of a package, which is said once, when it is built.

To check one, every call would have to wait for its kernels and read a flag back, which is what a
package is there to avoid; positions read from data are not checked for the same reason. Whoever
wants the check returns the condition as an output.

Rows S:H26, S:Q5.
"""

import warnings

from torch import fx
from torch.export import ExportedProgram

_OF_TENSORS = ("aten._assert_async.msg", "aten._assert_async.default")
_OF_NUMBERS = ("aten._assert_scalar.default",)
_NUMBERS_FROM_DATA = ("aten._local_scalar_dense.default", "aten.item.default")


def warn_of_assertions(program: ExportedProgram, name: str) -> None:
    """One warning with the words of all assertions on data; those on sizes are guards."""
    words = [
        str(node.args[1]) if len(node.args) > 1 else node.name
        for node in program.graph.nodes
        if str(node.target) in _OF_TENSORS
        or (str(node.target) in _OF_NUMBERS and _reads_data(node))
    ]
    if words:
        listed = "\n  ".join(dict.fromkeys(words))
        warnings.warn(
            f"tracing {name}: assertions on data are not checked by a package; return the "
            f"condition if it matters:\n  {listed}",
            stacklevel=2,
        )


def _reads_data(node: fx.Node) -> bool:
    """True for a number that comes from a tensor's elements."""
    waiting, seen = [node], {node}
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if str(source.target) in _NUMBERS_FROM_DATA:
                return True
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return False
