"""Exported programs from ``.pt2`` files, read as data: nothing in the file runs.

torch.export.load unpickles what it cannot read otherwise, evaluates size expressions and guards as
Python, writes names into generated code, and loads shared objects. So the members are checked
first, through torch's own reader, and pickles are read with weights_only alone.
"""

import ast
import importlib
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.pt2_archive._package import PT2ArchiveReader
from torch.utils._sympy import functions

from aotpack.errors import TraceError
from aotpack.trace.host.turns import one_at_a_time

_NATIVE = ("data/aotinductor/", "data/executorch/")
_OBJECTS = ("data/constants/custom_obj_", "data/constants/opaque_obj_")
_PT2E = b"torch.ops.quantized_decomposed."
_EXAMPLES = "data/sample_inputs/"
_NAME = re.compile(r"[\w.]*")
_OPERATOR = re.compile(r"torch\.ops(\.\w+){2,3}|torch(\.\w+)+|_operator\.\w+|math\.\w+|#[\w:.]+")
_ACTING = re.compile(
    r"torch\.ops\.(aten\.(save|from_file|manual_seed|_print|warn|set_grad_enabled|_cufft_\w+"
    r"|_?backward|dist_backward)|prim\.\w+|c10d\.\w+|symm_mem\.\w+)(\.\w+)?"
)  # on files, other processes, or what later calls do
_PASSED_OPERATOR = re.compile(r"torch\.ops(\.\w+){2,3}")
_PLAIN = re.compile(r"[^'\"`\\(){}\[\];=,\r\n]*")  # no character that ends a name in code
_FREE = ("metadata", "extra_metadata", "types")  # read as text
_SIZE_CODE = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Load, ast.Call, ast.keyword,
)  # fmt: skip
_GUARD_CODE = (*_SIZE_CODE, ast.Subscript, ast.Attribute)
_NUMBERS = ("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Max", "Min", "Abs")
_CONDITIONS = (
    "Equality Unequality Eq Ne StrictLessThan StrictGreaterThan LessThan GreaterThan "
    "Lt Gt Le Ge And Or Not"
).split()
_GUARD_NAMES = {"L", "min", "max", "math"}
_GUARD_CALLS = {"size", "min", "max", "ceil", "floor", "trunc", "sqrt", "isnan"}
_MOST_POWERS, _LARGEST_POWER = 16, 4  # in one size
_FORCED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_FORBIDDING = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"

_OF_WEIGHTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
_IN_A_FILE = (
    "make the model in a file, model.py, with model and example_inputs, {}, and build that file"
)
_TORCHSCRIPT = "a TorchScript file has no module that torch.export takes; " + _IN_A_FILE.format(
    "as the code that was scripted makes it"
)
_WEIGHTS = (
    "it has weights, or a module that was pickled, and no example inputs; "
    + _IN_A_FILE.format("where model.load_state_dict(torch.load(...)) reads it")
)


def load_program(path: Path) -> ExportedProgram:
    """The program in a file of torch.export.save; TraceError for one that holds code."""
    try:
        with path.open("rb") as file, _weights_only():
            _check_archive(path, PT2ArchiveReader(file))
            file.seek(0)
            return torch.export.load(file)
    except TraceError:
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        raise TraceError(
            f"loading {path} with torch.export.load: {type(error).__name__}: {reason}. Save it "
            f"again with torch.export.save of this torch ({torch.__version__})."
        ) from error


@contextmanager
def _weights_only() -> Iterator[None]:
    """Inside the block, torch.load runs no pickle, whatever its caller asks for."""
    with one_at_a_time():
        before = {name: os.environ.pop(name, None) for name in (_FORCED, _FORBIDDING)}
        os.environ[_FORCED] = "1"
        try:
            yield
        finally:
            del os.environ[_FORCED]
            os.environ.update({name: value for name, value in before.items() if value is not None})


def _check_archive(path: Path, archive: PT2ArchiveReader) -> None:
    for name in archive.get_file_names():
        if name.startswith(_NATIVE):
            raise _refusal(path, name, "is compiled code")
        if name.startswith(_OBJECTS):
            raise _refusal(path, name, "is a pickled object")
        if name.startswith(_EXAMPLES):
            _check_pickle(path, name, archive.read_bytes(name))
        if name.startswith("models/"):
            content = archive.read_bytes(name)
            if _PT2E in content:
                importlib.import_module("torch.ao.quantization.fx._decomposed")  # defines them
            for place, text in _Program(json.loads(content)).faults():
                why = "acts outside of its graph" if _ACTING.fullmatch(text) else "may be code"
                raise _refusal(path, name, f"has {text[:80]!r} as {place}, which {why}")


def _check_pickle(path: Path, name: str, content: bytes) -> None:
    try:
        torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:
        found = re.search(r"(?:GLOBAL|[Uu]nsupported (?:class|operand):?) (\S+)", str(error))
        what = f"names {found[1]}" if found else "is no plain data"
        raise _refusal(path, name, f"{what}, which only a full unpickling reads") from error


def _refusal(path: Path, member: str, fault: str) -> TraceError:
    return TraceError(
        f"loading {path}: {member} {fault}; a .pt2 is read without running anything in it. "
        "Accepted are graphs of operators, tensors, and example inputs of tensors, numbers and "
        "text in tuples, lists and dicts. Save the program so, or give a model file (.py) "
        "that has the program itself."
    )


class _Program:
    """The texts of a serialized program, and those that may not be there."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def faults(self) -> Iterator[tuple[str, str]]:
        """(field, text) of each text that torch might run."""
        yield from self._of(self._data, "field", is_input=False)

    def _of(self, value: Any, field: str, *, is_input: bool) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, part in value.items():
                if not _PLAIN.fullmatch(key):
                    yield "a name", key
                if key not in _FREE:
                    inside = is_input or key == "input_specs"
                    yield from self._of(part, key, is_input=inside)
        elif isinstance(value, list):
            for part in value:
                yield from self._of(part, field, is_input=is_input)
        elif isinstance(value, str) and not _is_harmless(value, field, is_input=is_input):
            yield field, value


def _is_harmless(text: str, field: str, *, is_input: bool) -> bool:
    match field:
        case "expr_str":
            return _is_size(text)
        case "guards_code":
            return _is_guard(text)
        case "in_spec":
            return _is_structure(json.loads(text)) and _has_plain_keywords(json.loads(text))
        case "out_spec":
            return _is_structure(json.loads(text))
        case "target":
            return bool(_OPERATOR.fullmatch(text)) and not _ACTING.fullmatch(text)
        case "as_operator":
            return bool(_PASSED_OPERATOR.fullmatch(text)) and not _ACTING.fullmatch(text)
        case "name" | "as_name" | "arg_name" | "forward_arg_names":
            return bool(_NAME.fullmatch(text))
        case "as_string" | "as_strings" if not is_input:
            return True
    return bool(_PLAIN.fullmatch(text))


def _is_size(text: str) -> bool:
    """True for a size as sympy prints it: ``Mul(Integer(2), Symbol('s47', positive=True))``."""
    tree = _parsed(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    texts = [node for call in calls if _names_value(call) for node in call.args[:1]]
    return (
        all(isinstance(node, _SIZE_CODE) for node in ast.walk(tree))
        and not any(isinstance(node, (ast.Pow, ast.LShift)) for node in ast.walk(tree))
        and _has_small_powers(calls)
        and all(isinstance(call.func, ast.Name) and _is_known(call.func.id) for call in calls)
        and all(
            not isinstance(node.value, (str, bytes)) or node in texts
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
        )
    )


def _has_small_powers(calls: Sequence[ast.Call]) -> bool:
    """False for numbers that would fill the memory: ``Pow(Integer(9), Integer(999999999))``."""
    names = [(call, getattr(call.func, "id", "")) for call in calls]
    powers = [call for call, name in names if "Pow" in name or "Shift" in name]
    exponents = [call.args[1] for call in powers if len(call.args) == 2]
    inner = [one.args[0] if isinstance(one, ast.Call) and one.args else one for one in exponents]
    numbers = [one.value for one in inner if isinstance(one, ast.Constant)]
    return len(numbers) == len(powers) <= _MOST_POWERS and all(
        isinstance(number, int) and number <= _LARGEST_POWER for number in numbers
    )


def _names_value(call: ast.Call) -> bool:
    """True for ``Symbol('s0')`` and ``Float('0.5')``."""
    known = isinstance(call.func, ast.Name) and call.func.id in ("Symbol", "Float")
    value = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    return known and isinstance(value, str) and bool(re.fullmatch(r"[\w.+-]+", value))


def _is_known(name: str) -> bool:
    """True for arithmetic of sympy, and for torch's own functions of sizes."""
    own = getattr(functions, name, None)
    is_own = isinstance(own, type) and issubclass(own, sympy.Basic)
    return is_own or name in _NUMBERS or name in _CONDITIONS


def _is_guard(text: str) -> bool:
    """True for a condition on sizes: ``L['x'].size()[0] == L['y'].size()[0]``."""
    tree = _parsed(text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return (
        all(isinstance(node, _GUARD_CODE) for node in ast.walk(tree))
        and names <= _GUARD_NAMES
        and used <= _GUARD_CALLS
    )


def _parsed(text: str) -> ast.AST:
    """The syntax tree; an empty statement, which nothing accepts, if it is no expression."""
    try:
        return ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return ast.Pass()


def _is_structure(value: Any) -> bool:
    """True for a tree of arguments that imports no further module when it is read."""
    if isinstance(value, dict):
        origins = [str(value.get("fqn", "")).partition(":")[0]] if "__enum__" in value else []
        origins += [str(value[key]) for key in ("default_factory_module",) if key in value]
        return all(origin in sys.modules for origin in origins) and all(
            map(_is_structure, value.values())
        )
    if isinstance(value, list):
        return all(map(_is_structure, value))
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return _is_structure(json.loads(value))
        except ValueError:
            return True
    return True


def _has_plain_keywords(value: Any) -> bool:
    """True if the keywords of forward, which become parameters of generated code, are names."""
    try:
        keywords = json.loads(value[1]["children_spec"][1]["context"])
        return all(_NAME.fullmatch(keyword) for keyword in keywords)
    except (LookupError, TypeError, ValueError):
        return False


def other_file(path: Path) -> str | None:
    """What a file that is no model file is, and what to do with it; None for other files."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {one.partition("/")[2] for one in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return _WEIGHTS if path.suffix in _OF_WEIGHTS and path.is_file() else None
    if any(name.startswith("code/") for name in names):
        return _TORCHSCRIPT
    if "archive_format" in names or any(name.startswith("models/") for name in names):
        return f"it was written by torch.export.save; name it {path.stem}.pt2"
    return _WEIGHTS if "data.pkl" in names else None
