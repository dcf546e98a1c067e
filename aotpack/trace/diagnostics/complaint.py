"""An error of torch.export, condensed: the cause, the user's line, the remedy."""

import re
import traceback
from collections.abc import Iterable

from aotpack.trace.diagnostics.conditions import (
    ConditionLog,
    data_complaint,
    right_for_some,
    size_complaint,
)
from aotpack.trace.diagnostics.derived import OnlySome
from aotpack.trace.source import is_user_file, shown_frame, users_source_in

_NOISE = (
    "The error above occurred",
    "For more",
    "For extended logs",
    "For C++",
    "If you suspect",
    "consider using",
    "Use tlparse",
    "Caused by",
    "Higher Order Operator",
    "Hint: Your code may result in an error when running in eager",
    "Hint: Please open an issue",
    "Hint: Consider using the debug context",
    "Developer debug context",
)
_OF_CALL = "Original traceback"  # of the call that is taken apart
_ENDS = ("The following call raised this error", "If this type holds tensors", _OF_CALL)
_FRAMES = "from user code:"  # of which the user's line is told as the place
_OF_OPERATORS = ("DataDependentOutputException", "DynamicOutputShapeException")  # of torch
_SHOWN_LINES = 8
_READ_BY = {  # the parts of torch that read data, and how they do not
    "torch/distributions/": "A distribution asks for no data with validate_args=False.",
    "torch/nn/modules/transformer.py": (
        "nn.Transformer looks whether a mask is causal, unless it is told: is_causal, "
        "tgt_is_causal=True."
    ),
}
_PROCESSES = re.compile(r"torch/distributed/(distributed_c10d|_functional_collectives)\.py$")
_OF_PROCESSES = (
    "communication between processes (torch.distributed) is not packaged: package the parts "
    "between two collectives, and communicate outside; numbers such as get_rank() become "
    "attributes, which __init__ computes"
)
CACHE_ADVICE = (
    "a package keeps caches of fixed length as state: make a StaticCache once, "
    "cache = StaticCache(config, max_cache_len=N), call cache.early_initialization(...), keep it "
    "as an attribute of the model, and return logits alone; or pass use_cache=False"
)
_OF_NESTED = (
    "Nested tensors are not packaged: a package takes a padded tensor with the lengths, or a mask, "
    "and computes with those."
)
_ADVICE = (
    (
        r"\.numpy\(\) is not supported",
        "numpy computes in no package: write the functions of torch in its place, or an operator "
        "of your own (torch.library.triton_op, aotpack.register_lowering)",
    ),
    (
        r"data pointer of Tensor|__cuda_array_interface__",
        "code that takes a tensor's memory (CUDA C++, CuPy, numpy) cannot be packaged; of kernels, "
        "Triton's are (torch.library.triton_op), and an operator of your own says what it computes "
        "with aotpack.register_lowering; a global tensor that the body of a loop uses becomes a "
        "buffer of the model",
    ),
    (
        r"requires CUDA support|CUDA enabled|NVIDIA driver|for cuda devices"
        r"|dummy base class (Event|Stream)|<class 'torch.Stream'>",
        "torch.cuda needs a GPU while a model is traced; what forward says of streams and events "
        "can be left out, as a package orders its work by data",
    ),
    (
        r"UntypedStorage|Cannot swap t\d",
        "a package keeps the memory of its tensors, so forward takes and changes no storages "
        "(untyped_storage(), swap_tensors); write self.b.copy_(...)",
    ),
    (r"\bDynamicCache\b|transformers\.cache_utils\.", CACHE_ADVICE),
    (
        r"/torch/distributions\b",
        "distributions are traced without strict mode alone",
    ),
    (
        r"unhashable type: .*SymInt",
        "a dynamic size is no key of a dict or a set: compute in each call what is kept there for "
        "a size, or keep it by functools.lru_cache, which a build looks through",
    ),
    (
        r"Cannot create Dim with inconsistent|Expected op to be '=='|exponent must be non-negative",
        "torch.export derived a condition on sizes that it cannot tell: declare a size that "
        "is padded or cut to a multiple as one (4*n), or pad before the model",
    ),
    (
        r"^'max'$",
        "torch.export fails at derived sizes, as a - 1, of a Dim that has min and no max: declare "
        "both, as Dim('a', min=3, max=1024)",
    ),
    (
        r"which is not a known type",
        "a model takes and returns tensors, numbers, text and None, in tuples, lists, dicts and "
        "dataclasses of torch.export.register_dataclass; leave out what else it returns (a cache "
        "of transformers by use_cache=False), or return the tensors that are in it",
    ),
    (
        r"(Unsupported input type|to non-tensor type) <class '(?!transformers)\w+\."
        r"|not supported or pytree-flattenable",
        "register a dataclass with torch.export.register_dataclass before the build; give what an "
        "object of another class holds in tuples, lists and dicts",
    ),
    (
        r"\b_?to_sparse|\bsparse_(coo|csr|csc|bsr|bsc)",
        "sparse tensors are not packaged: keep them dense, or take indices and values as inputs",
    ),
    (
        r"numpy\.object_|loop of ufunc does not support",
        "numpy does not compute with dynamic sizes: functions of torch do, as torch.arange(n) and "
        "those of torch.full((), n, dtype=torch.float32)",
    ),
    (
        r"combine_mode='pointwise'",
        "combine_mode='generic' gives the same, on any device",
    ),
    (
        r"must have the same dtype|to have the same dtype|Input type .* should be the same"
        r"|expected scalar type",
        "weights and inputs differ in their types: convert the example inputs, or build with "
        "--dtype (dtype=...), which casts both",
    ),
    (
        r"does not require grad|Tensor\.backward",
        "training and gradients are not packaged: leave backward() and torch.autograd.grad(...) "
        "out of forward",
    ),
    (
        r"fake tensor in the exported program constant",
        "training and gradients are not packaged: leave requires_grad_() and torch.autograd.grad "
        "out of forward; a parameter of a class of its own becomes a plain one, "
        "nn.Parameter(p.detach().as_subclass(torch.Tensor))",
    ),
    (
        r"on inference tensor",
        "weights that torch.inference_mode() made cannot be exported: make the model outside of it",
    ),
    (
        r"^(max|min)imum\(\) missing 1 required positional",
        "the max and min of Python, of one tensor, are x.max() and x.min(); of its rows, x.amax(0) "
        "and x.amin(0)",
    ),
    (
        r"'Tensor' object has no attribute 'constant'|\bfunctorch tensor",
        "derivatives by torch.func (grad, jacrev, jacfwd, and vmap around one) are not packaged: "
        "write them out, or give torch.func.jvp, which is computed forward",
    ),
    (
        r"passed to (FakeTensor|Sym\w+)\.__format__",
        "tensors have no values while a model is traced: leave out the print, or the text, that "
        "formats one",
    ),
    (
        r"might be aliasing the input or the output|Encountered aliasing",
        "torch.cond and loops return results that share no memory with each other or with "
        "operands: write x.clone() for a result that is an operand or a part of one, and for one "
        "of two results that are the same tensor or parts of one",
    ),
    (
        r"expected same storage_offset",
        "branches return tensors that begin at one place of their memory: write x.clone() for a "
        "result that is a part of a tensor, as a slice",
    ),
    (
        r"not a simple accumulative multiplication|order of strides of the two branches",
        "branches return tensors that lie alike in memory: write .contiguous() for each result",
    ),
    (
        r"mutate tensor data attribute",
        "a tensor keeps its memory in a branch or a loop: y.copy_(v) or y = v for y.data = v, "
        "y += v for y.data += v",
    ),
    (
        r"differ in 'stride",
        "a value that a loop carries keeps its strides: give the first one, and what the body "
        "returns for it, as .contiguous()",
    ),
)


_AT_A_COUNTER = (
    "torch takes no number out of a tensor in a body of its loops and branches. Accepted there "
    "are y.index_copy(0, i[None], v[None]) for y[i] = v and y.index_select(0, i[None])[0] for y[i]."
)


def condensed_of_run(error: BaseException) -> str:
    """An error of the model itself, as it runs on data; torch compiles its loops and branches."""
    if not type(error).__module__.startswith("torch._dynamo"):
        told = "\n  at ".join([f"{type(error).__name__}: {error}", *users_line(error)])
        return "\n  ".join([told, *_advice_on(str(error))])
    if "data-dependent" in str(error):
        first, source = str(error).partition("\n")[0].strip(), users_source_in(str(error))
        place = [str(source)] if source else users_line(error)
        return "\n  at ".join([first, *place]) + f"\n{_AT_A_COUNTER}"
    return condensed(error)


def condensed(
    error: BaseException, log: ConditionLog | None = None, assigned: Iterable[str] = ()
) -> str:
    """torch's message, condensed; the ``log`` and lines that ``assigned`` buffers may tell more."""
    log = log or ConditionLog()
    quoted = {*log.conditions, *log.reads.values(), *assigned, *_place(error), *_own_words(error)}
    return log.with_sizes(_condensed(error, log, assigned), quoted)


def _condensed(error: BaseException, log: ConditionLog, assigned: Iterable[str]) -> str:
    text = str(error).replace('For more information, run with TORCH_LOGS="+dynamic".', "")
    place = _place(error)
    if "is missing nn_module_stack metadata" in text:  # a copy that torch.export adds
        told = "forward assigns buffers anew; a package keeps its own: write self.b.copy_(...)"
        return "\n  at ".join([told, *dict.fromkeys(assigned)])
    if isinstance(error, OnlySome):
        where = log.conditions or place
        return right_for_some(error.sizes, error.conditions, log.operators, where)
    if text.startswith("Constraints violated"):
        return size_complaint(text, log, place)
    if _is_of_processes(error):
        return "\n  at ".join([_OF_PROCESSES, *place])
    if type(error).__name__ in _OF_OPERATORS:
        text = f"Data dependent operator: {text}"
    by_data = data_complaint(text, log.reads, place)
    if by_data:
        return " ".join([by_data, *_hints_of_data(error)])
    is_nested = re.search(r"nested_tensor|\.nested\.", "".join([text, *place]))
    return "\n  at ".join([_useful(error, text), *place]) + (f"\n{_OF_NESTED}" if is_nested else "")


def _is_of_processes(error: BaseException) -> bool:
    """True for an error of torch's functions that communicate, as without a group of processes."""
    files = (frame.filename for frame in traceback.extract_tb(error.__traceback__))
    return any(_PROCESSES.search(one) for one in files)


def _hints_of_data(error: BaseException) -> list[str]:
    """What keeps a part of torch from reading data."""
    files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
    return [hint for part, hint in _READ_BY.items() if any(part in one for one in files)]


def _place(error: BaseException) -> list[str]:
    """The user's innermost line in the traceback, or in a traceback inside the message.

    Both for an error of a lowering that the user registered: its line, and that of the call.
    """
    own, told = users_line(error), users_source_in(str(error))
    if told is None or (own and _OF_CALL not in str(error)):
        return own
    return [*dict.fromkeys([*own, str(told)])]


def _own_words(error: BaseException) -> set[str]:
    """The words of the user's line that raises: its message may have them as they stand."""
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    return {
        word
        for frame in frames
        if is_user_file(frame.filename)
        for word in re.findall(r"\b[su]f?\d+\b", frame.line or "")
    }


def users_line(error: BaseException) -> list[str]:
    """The user's innermost line in the traceback, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    return [shown_frame(frame) for frame in frames if is_user_file(frame.filename)][-1:]


def _advice_on(text: str) -> list[str]:
    """What to do about a message of torch, if that is known."""
    return [advice for pattern, advice in _ADVICE if re.search(pattern, text)]


def _useful(error: BaseException, text: str) -> str:
    """The first useful lines, the fixes that torch suggests, and our advice."""
    for end in _ENDS:
        text = text.partition(end)[0]
    lines = [line.strip() for line in text.partition(_FRAMES)[0].splitlines()]
    useful = [line for line in lines if line and not line.startswith(_NOISE)]
    start = useful.index("Suggested fixes:") if "Suggested fixes:" in useful else len(useful)
    shown = useful[: min(start, _SHOWN_LINES)] + useful[start:]
    shown += _advice_on(text)
    message = "\n  ".join(shown)
    return f"{type(error).__name__}: {message}" if type(error).__module__ == "builtins" else message
