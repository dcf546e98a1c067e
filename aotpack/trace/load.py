"""MODEL on the command line -> module, example inputs and options in the file.

A model file defines ``model`` or ``get_model()``, and ``example_inputs`` or ``get_inputs()``;
optionally ``dynamic_shapes``, ``name``, ``version``. A dict of example inputs means keywords, which
``example_kwargs`` adds to a tuple. Or it defines ``methods`` or ``get_methods()``: a dict of
``Method`` by name.
"""

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from aotpack.errors import TraceError, UsageError, a_type
from aotpack.importable import importable
from aotpack.trace.methods import Method
from aotpack.trace.quantize.checkpoints import GGUF
from aotpack.trace.saved import load_program, other_file
from aotpack.trace.source import shown_frame

_SHOWN_LINES = 4
_INPUTS = ("example_inputs", "get_inputs")
_MODELS = ("model", "get_model")
_OPTIONAL = ("dynamic_shapes", "example_kwargs")
_READ = (*_INPUTS, *_OPTIONAL, "name", "version")
_ALIKE = 0.92  # of the letters of a name
_ACCEPTED = "model.py, model.py:attr, package.module:attr or model.pt2"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model with the arguments of ``trace``, or methods by name without any."""

    module: nn.Module | ExportedProgram | Mapping[str, Method]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any
    name: str
    version: str
    file: Path | None = None  # what defines it, with its sha256
    sha256: str | None = None


def load_model(spec: str) -> Loaded:
    """Load ``model.py``, ``model.py:attr``, ``package.module:attr`` or ``model.pt2``."""
    head, colon, attr = spec.rpartition(":")
    place = head if colon and attr.isidentifier() else spec
    attr = attr if place == head and colon else ""
    path = Path(place)
    sha256 = _sha256(path)
    if place.endswith(".pt2"):
        return replace(_load_program(path), file=path, sha256=sha256)
    if place.endswith(".py"):
        module = _run_file(path)
        _check_spelling(module, spec)
        loaded = _from_namespace(module, attr, path.stem, spec)
        return replace(loaded, file=path, sha256=sha256)
    if attr and all(part.isidentifier() for part in place.split(".")):
        module = _import(place)
        loaded = _from_namespace(module, attr, place.rpartition(".")[2], spec)
        defined = Path(module.__file__ or "")
        return replace(loaded, file=defined, sha256=_sha256(defined))
    if told := other_file(path):
        raise UsageError(f"MODEL {spec}: {told}")
    if path.suffix == ".gguf":
        raise UsageError(f"MODEL {spec}: {GGUF}")
    if path.suffix == ".onnx":
        raise UsageError(f"MODEL {spec}: ONNX is not read; give the nn.Module, as {_ACCEPTED}")
    if place and path.is_dir():
        raise UsageError(f"MODEL {spec}: it is a folder; {_ACCEPTED} is accepted")
    if path.suffix == ".whl":
        raise UsageError(
            f"MODEL {spec}: a wheel is a package already; aotpack inspect, verify and bench take "
            f"it. Here {_ACCEPTED} is accepted"
        )
    beside = [f"{place}{end}" for end in (".py", ".pt2") if Path(f"{place}{end}").is_file()]
    near = f"; did you mean {beside[0]!r}?" if beside else ""
    raise UsageError(f"MODEL {spec}: not understood; {_ACCEPTED} is accepted{near}")


def _sha256(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _load_program(path: Path) -> Loaded:
    _check_exists(path)
    program = load_program(path)
    if program.example_inputs is None:
        raise TraceError(
            f"loading {path}: the saved program has no example inputs; save it again from "
            "torch.export.export, which keeps them"
        )
    args, kwargs = program.example_inputs
    return Loaded(program, tuple(args), dict(kwargs), None, _identifier(path.stem), "0.1.0")


def _run_file(path: Path) -> ModuleType:
    """Execute a model file as a separate module, with its folder importable meanwhile."""
    _check_exists(path)
    name = _identifier(path.stem)
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise TraceError(f"loading {path}: not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with importable(path.resolve().parent), _explained(str(path), path):
            module_spec.loader.exec_module(module)
    finally:
        if before is not None:
            sys.modules[name] = before
    return module


def _import(name: str) -> ModuleType:
    with importable(Path.cwd()), _explained(name, None):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise UsageError(
                f"MODEL {name}: Python finds no module {error.name} in the current folder or among "
                f"installed packages; {_ACCEPTED} is accepted"
            ) from error


def _from_namespace(module: ModuleType, attr: str, name: str, spec: str) -> Loaded:
    path = Path(module.__file__) if module.__file__ else None
    with _explained(spec, path):
        methods = _methods(module, attr, spec)
        model = _model(module, attr, spec) if methods is None else methods
        is_module = not isinstance(model, Mapping)
        args, kwargs = _inputs(module, spec) if is_module else ((), {})
    return Loaded(
        module=model,
        args=args,
        kwargs=kwargs,
        dynamic_shapes=getattr(module, "dynamic_shapes", None) if is_module else None,
        name=str(getattr(module, "name", None) or _identifier(name)),
        version=_version(module, spec),
    )


def _version(module: ModuleType, spec: str) -> str:
    version = getattr(module, "version", None) or "0.1.0"
    if not isinstance(version, str):
        raise UsageError(
            f"loading {spec}: version is {version!r}; text is accepted, such as '1.10', which is "
            "another number than 1.1"
        )
    return version


def _check_spelling(module: ModuleType, spec: str) -> None:
    """Refuse a name of a model file that is almost one that is read: nobody would read it."""
    for accepted in _OPTIONAL:
        near = get_close_matches(_spelt(accepted), map(_spelt, vars(module)), 1, _ALIKE)
        if hasattr(module, accepted) or not near:
            continue
        found = next(name for name in vars(module) if _spelt(name) == near[0])
        raise UsageError(
            f"loading {spec}: it defines {found}, which nothing reads; did you mean {accepted!r}? "
            f"A model file defines model or methods, and {', '.join(_READ)}; begin other names "
            "with _"
        )


def _near(module: ModuleType, wanted: Sequence[str]) -> str:
    """The names of a module that look like one that it should have."""
    own = {_spelt(name): name for name in vars(module)}
    near = [own[one] for name in wanted for one in get_close_matches(_spelt(name), own, 1, 0.8)]
    return f", but {near[0]}" if near else ""


def _spelt(name: str) -> str:
    """A name without what is often mistaken in it."""
    return name.lower().replace("_", "") if name[0] != "_" else ""


def _methods(module: ModuleType, attr: str, spec: str) -> Mapping[str, Method] | None:
    """The methods by name, if that is what the file or the attribute defines."""
    found = getattr(module, attr or "methods", None)
    if found is None and not attr and callable(getattr(module, "get_methods", None)):
        found = module.get_methods()
    if isinstance(found, Mapping):
        return found
    if found is not None and not attr and not any(hasattr(module, name) for name in _MODELS):
        raise UsageError(
            f"loading {spec}: methods is {a_type(found)}; a dict is accepted: "
            "{'decode': aotpack.Method(module, example_inputs)}"
        )
    return None


def _model(module: ModuleType, attr: str, spec: str) -> nn.Module | ExportedProgram:
    names = [attr] if attr else _MODELS
    found = next((name for name in names if hasattr(module, name)), None)
    if found is None:
        raise TraceError(
            f"loading {spec}: it defines no {' or '.join(names)}{_near(module, names)}; "
            + ("check the name after the colon" if attr else "define model = ... or methods = ...")
            + _modules_in(module, spec, attr)
        )
    value = getattr(module, found)
    gives = "is"
    if not isinstance(value, (nn.Module, ExportedProgram, type)) and callable(value):
        gives = "takes arguments, and is" if _takes_arguments(value) else "returns"
        value = value() if gives == "returns" else value
    if not isinstance(value, (nn.Module, ExportedProgram)):
        shown = f"the class {value.__name__}" if isinstance(value, type) else a_type(value)
        raise TraceError(
            f"loading {spec}: {found} {gives} {shown}; a torch.nn.Module instance, an "
            "ExportedProgram, or a function without arguments that returns one is accepted"
            + (_of_a_function(found, gives) if callable(value) and gives != "is" else "")
            + _of_a_dict(value)
        )
    return value


def _of_a_function(name: str, gives: str) -> str:
    """What to do with a function that builds the model, or one that computes."""
    if name == "get_model" and gives != "returns":
        return ". Call it with arguments of your choice: model = get_model(...)"
    return ". Call it in the forward of a module"


def _takes_arguments(function: Callable[..., Any]) -> bool:
    """True for a function that cannot be called without arguments."""
    try:
        inspect.signature(function).bind()
    except TypeError:
        return True
    except ValueError:  # of one without a signature
        return False
    return False


def _of_a_dict(value: Any) -> str:
    """What to do with weights, or with several models, in the place of a model."""
    if not isinstance(value, Mapping) or not value:
        return ""
    if all(isinstance(one, torch.Tensor) for one in value.values()):
        return ". These are weights: make the module and give them to its load_state_dict(...)"
    return ". Several entries are given as methods = {'decode': aotpack.Method(module, inputs)}"


def _modules_in(module: ModuleType, spec: str, attr: str) -> str:
    """How to name a module that a file has under another name."""
    found = [name for name, value in vars(module).items() if isinstance(value, nn.Module)]
    place = spec.removesuffix(f":{attr}")
    return f", or give {place}:{found[0]}" if found else ""


def _inputs(module: ModuleType, spec: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    value = getattr(module, "example_inputs", None)
    if value is None and callable(getattr(module, "get_inputs", None)):
        value = module.get_inputs()
        if value is None:
            raise TraceError(f"loading {spec}: get_inputs() returns None; let it return the inputs")
    kwargs = getattr(module, "example_kwargs", None)
    if kwargs is not None:
        return _with_keywords(() if value is None else value, kwargs, spec)
    if value is None:
        raise TraceError(
            f"loading {spec}: it defines no example inputs{_near(module, _INPUTS)}; define "
            "example_inputs = (tensor, ...) or {'name': tensor}, or get_inputs() that returns them"
        )
    if isinstance(value, Mapping):
        return (), dict(value)
    if isinstance(value, (tuple, list)):
        return tuple(value), {}
    is_one = hasattr(value, "__dlpack__")
    raise TraceError(
        f"loading {spec}: example_inputs is {a_type(value)}; a tuple (positional inputs) "
        "or a dict (keyword inputs) is accepted"
        + (": write the comma of (x,), for (x) is x" if is_one else "")
    )


def _with_keywords(args: Any, kwargs: Any, spec: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(args, (tuple, list)) and isinstance(kwargs, Mapping):
        return tuple(args), dict(kwargs)
    raise TraceError(
        f"loading {spec}: example_inputs is {a_type(args)} and example_kwargs "
        f"{a_type(kwargs)}; a tuple (positional inputs) and a dict (keyword inputs) are "
        "accepted together"
    )


@contextmanager
def _explained(what: str, path: Path | None) -> Iterator[None]:
    """Inside the block, an exception of the user's code becomes an error with its line."""
    try:
        yield
    except (TraceError, UsageError):
        raise
    except (Exception, SystemExit) as error:
        raise TraceError(f"loading {what}: {_at_line(error, path)}") from error


def _at_line(error: BaseException, path: Path | None) -> str:
    """The error, the user's line, and the errors that caused it, up to the first."""
    message = f"{type(error).__name__}: {_text(error)}"
    if isinstance(error, SyntaxError) and error.text:
        return f"{message}\n  {error.text.strip()}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if path is not None and Path(f.filename).name == path.name]
    rows = [message, *(f"at {shown_frame(frame)}" for frame in own[-1:])]
    if "attempted relative import" in message:
        rows.append("A file is loaded alone; a module of a package is package.module:model")
    for cause in _causes(error):
        rows.append(f"caused by {type(cause).__name__}: {_text(cause)}")
        deepest = traceback.extract_tb(cause.__traceback__)[-1:]
        rows += [f"at {shown_frame(frame)}" for frame in deepest if frame.line]
    return "\n  ".join(rows)


def _causes(error: BaseException) -> list[BaseException]:
    """The errors behind this one, without those that were silenced."""
    found = [error]
    while True:
        last = found[-1]
        behind = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if behind is None or behind in found:
            return found[1:]
        found.append(behind)


def _text(error: BaseException) -> str:
    """The first lines of an error's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "\n  ".join(lines[:_SHOWN_LINES])


def _check_exists(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"loading {path}: no such file; {_ACCEPTED} is accepted")


def _identifier(stem: str) -> str:
    """A valid identifier."""
    name = re.sub(r"\W", "_", stem)
    return name if name.isidentifier() else f"model_{name}"
