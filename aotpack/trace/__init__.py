"""Trace: a model (or a saved exported program) -> ``Traced``; the only stage that needs torch."""

from aotpack.trace.dynamic import merge_dynamic, parse_dynamic
from aotpack.trace.load import Loaded, load_model
from aotpack.trace.operators.registered import register_lowering
from aotpack.trace.trace import trace

__all__ = ["Loaded", "load_model", "merge_dynamic", "parse_dynamic", "register_lowering", "trace"]
