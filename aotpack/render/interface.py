"""The types of a package's module as a stub file: arguments, results and their classes.

Arrays are of the caller's framework, so ``Model`` is generic in them: ``Model[torch.Tensor]``. An
argument of a class is anything with its fields (a protocol), or a mapping of them.
"""

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile

from aotpack.ir.dtypes import DType
from aotpack.render.contexts import CallContext, ClassContext, InterfaceContext
from aotpack.render.environment import render_template
from aotpack.stages import Signature, TensorSpec
from aotpack.trees import CLASSES, Constant, Tree, classes_of

_ARRAY = "_A"
_DICT_NAMES = frozenset(dir(dict))


def render_interface(signature: Signature) -> str:
    """The text of ``__init__.pyi`` of a package with one method."""
    return render_interfaces(f"{signature.name} {signature.version}", {"": signature})


def render_interfaces(title: str, methods: Mapping[str, Signature]) -> str:
    """The text of ``__init__.pyi``, by the names of methods; that of an only one is ""."""
    return render_template(
        "package.pyi.jinja", _Types(tuple(methods.values())).context(title, methods)
    )


class _Types:
    """Type expressions of some signatures; dicts get typed dicts as they are met."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        arguments = tuple(tree for one in signatures for tree in (one.args, one.kwargs))
        self._classes = classes_of(*arguments, *(one.result for one in signatures))
        self._names = {id(n): name for name, nodes in self._classes.items() for n in nodes}
        taken = {id(node) for tree in arguments for node in tree.walk()}
        self._taken = {self._names[one] for one in taken if one in self._names}
        self._dicts: dict[str, tuple[tuple[str, str], ...]] = {}

    def context(self, title: str, methods: Mapping[str, Signature]) -> InterfaceContext:
        """What the template gets."""
        calls = tuple(
            CallContext(
                name,
                self._forms(one),
                self._value(one.result, f"_{_camel(name)}Result"),
            )
            for name, one in methods.items()
        )
        classes = tuple(self._class(name, nodes) for name, nodes in self._classes.items())
        protocols = tuple(
            (name, self._protocol(name)) for name in self._classes if name in self._taken
        )
        return InterfaceContext(title, tuple(self._dicts.items()), protocols, classes, calls)

    def _class(self, name: str, nodes: tuple[Tree, ...]) -> ClassContext:
        keys = nodes[0].keys
        is_ordered = all(node.keys == keys for node in nodes)
        fields = self._fields(name, nodes, is_argument=False)
        types = dict(fields)
        picks = tuple(
            (f"{key!r}, {place}" if is_ordered else repr(key), types.get(key, "Any"))
            for place, key in enumerate(keys)
        )
        hiding = tuple(field for field, _ in fields if field in _DICT_NAMES)
        return ClassContext(name, nodes[0].kind, fields, picks, hiding)

    def _protocol(self, name: str) -> tuple[tuple[str, str], ...]:
        """The fields that an argument of a class has, which are only read."""
        fields = self._fields(name, self._classes[name], is_argument=True)
        return tuple(
            (field, re.sub(rf"\b{_ARRAY}\b", f"{_ARRAY}_co", kind)) for field, kind in fields
        )

    def _fields(
        self, name: str, nodes: tuple[Tree, ...], *, is_argument: bool
    ) -> tuple[tuple[str, str], ...]:
        """The attributes of a class, each with its types in all nodes."""
        found: dict[str, list[str]] = {}
        for node in nodes:
            parts = dict(zip(node.keys, node.children, strict=True))
            for field in filter(_is_name, node.attributes):
                part = parts.get(field, Tree("none"))
                is_left_out = is_argument and part.kind == "none"
                if not is_left_out:
                    own = self._argument(part) if is_argument else self._value(part, f"_{name}")
                    found.setdefault(field, []).append(own)
        return tuple((field, _union(types)) for field, types in found.items())

    def _value(self, tree: Tree, path: str) -> str:
        """The type of a part of a result; ``path`` names a typed dict."""
        if tree.kind in ("leaf", "none", "constant"):
            return _ARRAY if tree.kind == "leaf" else _constant(tree.value)
        if tree.kind in CLASSES:
            return f"{self._names[id(tree)]}[{_ARRAY}]"
        keys = tree.keys or [str(place) for place in range(len(tree.children))]
        parts = [
            self._value(child, f"{path}{_camel(key)}")
            for key, child in zip(keys, tree.children, strict=True)
        ]
        if tree.kind == "tuple":
            return f"tuple[{', '.join(parts) or '()'}]"
        if tree.kind == "list":
            return f"list[{_union(parts)}]"
        if not all(map(_is_name, tree.keys)):
            return f"dict[str, {_union(parts)}]"
        while path in self._dicts:
            path += "_"
        self._dicts[path] = tuple(zip(tree.keys, parts, strict=True))
        return f"{path}[{_ARRAY}]"

    def _argument(self, tree: Tree) -> str:
        """The types that an argument accepts."""
        if tree.kind in ("leaf", "none", "constant"):
            return _ARRAY if tree.kind == "leaf" else _constant(tree.value)
        if tree.kind in CLASSES:
            return f"_{self._names[id(tree)]}Like[{_ARRAY}] | Mapping[str, Any]"
        parts = [self._argument(child) for child in tree.children]
        if tree.kind == "dict":
            return f"Mapping[str, {_union(parts)}]"
        fixed = f"tuple[{', '.join(parts) or '()'}]"
        return f"{fixed} | list[Any]" if tree.kind == "tuple" else f"Sequence[{_union(parts)}]"

    def _forms(self, signature: Signature) -> tuple[tuple[str, ...], ...]:
        """The lines of the parameters of a call, for each way of passing them.

        Python takes no parameter behind one with a default. Where one stands there, it is by
        keyword alone in the first way, and in the second what stands before it is passed.
        """
        tensors = iter(signature.inputs)
        count = len(signature.args.children)
        names = (*signature.positional[:count], *signature.kwargs.keys)
        children = (*signature.args.children, *signature.kwargs.children)
        lines = {
            name: self._parameter(name, child, tensors)
            for name, child in zip(names, children, strict=True)
        }
        left_out = {n: f"{n}: {_constant(v)}" for n, v in signature.defaults if _is_name(n)}
        defaults = {name: f"{line} = ...," for name, line in left_out.items()}
        places = [*takewhile((lines | defaults).__contains__, signature.positional)]
        behind = [*dropwhile(lines.__contains__, places)]
        first = [*takewhile(lines.__contains__, places), *takewhile(defaults.__contains__, behind)]
        forms = [_lines(first, lines | defaults)]
        if any(map(lines.__contains__, behind)):
            last = max(place for place, name in enumerate(places, 1) if name in lines)
            passed = {name: f"{left_out[name]}," for name in places[:last] if name in left_out}
            forms.append(_lines(places, lines | defaults | passed))
        return tuple(forms)

    def _parameter(self, name: str, tree: Tree, tensors: Iterator[TensorSpec]) -> str:
        specs = [next(tensors) for node in tree.walk() if node.kind == "leaf"]
        kind = self._argument(tree)
        if tree.kind == "leaf" and specs[0].dtype is DType.INT64 and not specs[0].shape:
            kind += " | int"
        own = name if _is_name(name) else re.sub(r"\W+", "_", name).strip("_")
        shapes = ", ".join(map(_shown, specs))
        return f"{own}: {kind}," + (f"  # {shapes}" if shapes else "")


def _lines(placed: Sequence[str], lines: Mapping[str, str]) -> tuple[str, ...]:
    """The lines of parameters, with what divides those with a place from others."""
    nameless = max((n for n, name in enumerate(placed, 1) if not _is_name(name)), default=0)
    found = [lines[name] for name in placed]
    if nameless:
        found.insert(nameless, "/,")
    rest = {name: line for name, line in lines.items() if name not in placed}
    plain = [line for name, line in rest.items() if _is_name(name)]
    others = [f"**others: {_ARRAY},"] if len(plain) < len(rest) else []
    return (*found, *(["*,"] if plain else []), *plain, *others)


def _shown(spec: TensorSpec) -> str:
    rank = len(spec.shape) - spec.pairs
    order = f" in order {', '.join(map(str, spec.order[:rank]))}" if spec.order[:rank] else ""
    element = f"complex{16 * spec.dtype.itemsize}" if spec.pairs else spec.dtype
    return f"{element}[{', '.join(map(str, spec.shape[:rank]))}]{order}"


def _constant(value: Constant) -> str:
    if value is None or isinstance(value, float):
        return "None" if value is None else "float"
    return f"Literal[{value!r}]"


def _union(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types)) or "Any"


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text) and not text.startswith("_")


def _camel(key: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"\W|_", key))
