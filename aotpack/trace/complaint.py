"""torch's complaint about a model, condensed: what is wrong, where in the user's code, what to do.

Rows S:G5, P11.
"""

import re
import traceback

from aotpack.trace.source import is_user_file, shown_path

_NOISE = (
    "The error above occurred",
    "For more",
    "For extended logs",
    "For C++",
    "If you suspect",
    "consider using",
    "Caused by",
)
_SHOWN_LINES = 8
_ADVICE = (
    (
        r"data pointer of Tensor|__cuda_array_interface__|\.numpy\(\) is not supported",
        "code that takes a tensor's memory (CUDA C++, CuPy, numpy) cannot be packaged; of kernels, "
        "Triton's are (torch.library.triton_op), and an operator of your own says what it computes "
        "with aotpack.register_lowering",
    ),
    (
        r"requires CUDA support|CUDA enabled|NVIDIA driver|for cuda devices"
        r"|dummy base class (Event|Stream)|<class 'torch.Stream'>",
        "torch.cuda needs a GPU while a model is traced; what forward says of streams and events "
        "can be left out, as a package orders its work by data",
    ),
)


def condensed(error: Exception) -> str:
    """The first useful lines of torch's message, its suggested fixes, advice, the user's line."""
    text = str(error).replace('For more information, run with TORCH_LOGS="+dynamic".', "")
    text = text.partition("The following call raised this error")[0]
    lines = [line.strip() for line in text.splitlines()]
    useful = [line for line in lines if line and not line.startswith(_NOISE)]
    start = useful.index("Suggested fixes:") if "Suggested fixes:" in useful else len(useful)
    shown = useful[: min(start, _SHOWN_LINES)] + useful[start:]
    shown += [advice for pattern, advice in _ADVICE if re.search(pattern, text)]
    message = "\n  ".join(shown)
    if type(error).__module__ == "builtins":
        message = f"{type(error).__name__}: {message}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_user_file(f.filename)]
    if not frames:
        return message
    frame = frames[-1]
    return f"{message}\n  at {shown_path(frame.filename)}:{frame.lineno}: {frame.line}"
