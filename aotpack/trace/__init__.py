"""Trace: a model (or exported program) -> ``Traced``; the only stage that needs torch.

Modules in reading order: ``trace`` (the entry) with ``methods`` (several entries of a package) and
``names`` (of what they share), ``load`` (MODEL -> module and inputs) with
``saved`` (.pt2 files), ``capture`` (torch.export), ``dynamic`` and ``sizes`` (dynamic shapes),
``graph`` (program -> ``Graph``) with ``arguments``, ``weights``, ``changes``, ``tree``,
``parameters`` and ``source``, ``layers`` (that are prepared first), ``operators``,
``triton`` (the user's kernels), ``complex_pairs``,
``complex_numbers``, ``conversions`` (the model's own), ``eager`` (runs on the example inputs),
``agreement`` (other forms of the model are checked), ``golden`` with ``strides`` (reference data),
``diagnostics``.
"""

from aotpack.trace.dynamic import declared_names, merge_dynamic, parse_dynamic, replaced_sizes
from aotpack.trace.layers.state_arguments import with_state
from aotpack.trace.load import Loaded, load_model
from aotpack.trace.methods import Method, check_methods, inputs_beside
from aotpack.trace.operators.registered import register_lowering
from aotpack.trace.quantize.checkpoints import load_checkpoint
from aotpack.trace.trace import TraceOptions, trace, trace_methods

__all__ = [
    "Loaded",
    "Method",
    "TraceOptions",
    "check_methods",
    "declared_names",
    "inputs_beside",
    "load_checkpoint",
    "load_model",
    "merge_dynamic",
    "parse_dynamic",
    "register_lowering",
    "replaced_sizes",
    "trace",
    "trace_methods",
    "with_state",
]
