"""manifest.json: the precompiled build as the runtime reads it."""

import hashlib
import json
import math
import re
from collections.abc import Container, Sequence
from dataclasses import asdict
from typing import Any

from aotpack.emit.content import Content
from aotpack.emit.names import Identity
from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Fixed, Passed
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.runtime.files.kinds import MOST
from aotpack.runtime.manifest import SCHEMA
from aotpack.stages import (
    Binary,
    DrawnInput,
    Golden,
    HostBuild,
    KernelArg,
    KernelSource,
    Precompiled,
    Rendered,
    Signature,
    TensorSpec,
    TorchCall,
    Weight,
)
from aotpack.trees import Tree
from aotpack.version import __version__


def manifest_text(
    precompiled: Precompiled,
    identity: Identity,
    weights: str,
    file: Content | None,
    constants_sha256: str,
) -> bytes:
    """The manifest as JSON with sorted keys; ``file`` is that of the weights, if there is one."""
    rendered = precompiled.rendered
    data = {
        "schema": SCHEMA,
        **asdict(identity),
        "aotpack": __version__,
        "compilers": dict(precompiled.compilers),
        "targets": [str(target) for target in precompiled.targets],
        **_method(rendered),
        "weights": _weights(rendered.weights),
        "unused": list(rendered.signature.unused),
        "weights_mode": weights,
        "weights_sha256": file.sha256.hex() if file else None,
        "weights_chunks": file.chunk_digests() if file else [],
        "constants_sha256": constants_sha256,
        "host": _host(precompiled.host),
        "kernels": _kernels(precompiled),
        "calls": {call.name: _call(call) for call in rendered.calls},
    }
    if rendered.methods:
        data["wrapper_sha256"] = None
        data["methods"] = {
            name: {
                "name": name,
                "version": identity.version,
                "uses": [weight.name for weight in one.weights],
                **_method(one),
            }
            for name, one in rendered.methods.items()
        }
    return (json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _method(rendered: Rendered) -> dict[str, Any]:
    """What a method has of its own; of a package with several, nothing but bytes and choices."""
    data = {
        **signature_facts(rendered.signature),
        "wrapper_sha256": hashlib.sha256(rendered.wrapper.encode()).hexdigest(),
        "peak_bytes": min(rendered.peak_bytes, MOST),  # sizes may have no upper bound
        "choices": list(rendered.choices),
        "golden": golden_facts(rendered.golden),
    }
    if rendered.derived:
        data["derived"] = [{**asdict(one), "dtype": str(one.dtype)} for one in rendered.derived]
    if rendered.moved:
        data["moved"] = {target: _size(moved) for target, moved in rendered.moved.items()}
    return data


def signature_facts(signature: Signature) -> dict[str, Any]:
    """What a method takes, returns and changes; not its name."""
    return {
        "sizes": [_range(size) for size in signature.sizes],
        "inputs": [_tensor(spec) for spec in signature.inputs],
        "outputs": [_tensor(spec) for spec in signature.outputs],
        **{side: _tree(getattr(signature, side)) for side in ("args", "kwargs", "result")},
        "positional": list(signature.positional),
        **_defaults(signature),
        "updates": list(signature.updates),
        "assertions": [asdict(one) for one in signature.assertions],
        **_counted(signature),
    }


def _defaults(signature: Signature) -> dict[str, Any]:
    """The values of parameters that the example left out; nothing if there are none."""
    defaults = {name: _fixed(value) for name, value in signature.defaults}
    return {"defaults": defaults} if defaults else {}


def _counted(signature: Signature) -> dict[str, Any]:
    """The sizes that data decide, and conditions on sizes; nothing if there are none."""
    counted = [
        {"name": one.size.name, "low": one.size.low, "high": one.size.high, "place": one.place}
        for one in signature.counted
    ]
    conditions = [
        {"holds": _size(one.holds), "text": one.text, "place": one.place}
        for one in signature.conditions
    ]
    return {
        **({"counted": counted} if counted else {}),
        **({"conditions": conditions} if conditions or counted else {}),
    }


def golden_facts(golden: Golden) -> dict[str, Any]:
    """What the file of golden data does not say."""
    return {
        "eager_errors": list(golden.eager_errors),
        "drawn": {one.name: _drawn(one) for one in golden.drawn},
        "sampled": {
            one.name: {"shape": list(one.shape), "count": one.count, "block": one.block}
            for one in golden.sampled
        },
        "note": golden.note,
    }


def _drawn(one: DrawnInput) -> dict[str, Any]:
    ends = {"low": float(one.low), "high": float(one.high)}
    return {"dtype": str(one.dtype), "shape": list(one.shape), "seed": one.seed, **ends}


def _range(size: Var) -> dict[str, Any]:
    return {"name": size.name, "low": size.low, "high": size.high, "multiple": size.multiple}


def binary_path(binary: Binary) -> str:
    """The path in the package of a kernel's code."""
    name = "kernels" if binary.suffix == "so" else binary.kernel
    return f"kernels/{binary.target}/{name}.{binary.suffix}"


def source_path(kernel: KernelSource) -> str:
    """The path in the package of a kernel's text, for reading; all of C is one file."""
    if kernel.language == "c":
        return "kernels/source/kernels.c"
    return f"kernels/source/{kernel.name}.py"


def stored_binaries(precompiled: Precompiled) -> dict[Binary, str]:
    """The path of each binary; equal code is stored once, under the first path."""
    first: dict[tuple[str, bytes], str] = {}
    return {
        binary: first.setdefault((binary.target, binary.code), binary_path(binary))
        for binary in precompiled.binaries
    }


def _weights(weights: Sequence[Weight]) -> list[dict[str, Any]]:
    known = {weight.name for weight in weights}
    return [_weight(weight, known) for weight in weights]


def _weight(weight: Weight, known: Container[str]) -> dict[str, Any]:
    shares = [name for name in weight.shares if name in known]
    return {
        "name": weight.name,
        "names": list(weight.names),
        "dtype": str(weight.dtype),
        "shape": list(weight.shape),
        "constant": weight.is_constant,
        "follows": weight.follows,
        **({"staged": True} if weight.is_staged else {}),
        **({"pairs": True} if weight.pairs else {}),
        **({"shares": shares} if shares else {}),
    }


def _kernels(precompiled: Precompiled) -> dict[str, Any]:
    kernels: dict[str, Any] = {
        kernel.name: {
            "args": [_argument(arg) for arg in kernel.args],
            "source": source_path(kernel),
            "moved": _size(kernel.work.moved),
            "flops": _size(kernel.work.flops),
            "binaries": {},
            **({"reads_early": True} if kernel.reads_early else {}),
            **_maps(kernel),
        }
        for kernel in precompiled.rendered.kernels
    }
    for binary, path in stored_binaries(precompiled).items():
        kernels[binary.kernel]["binaries"][binary.target] = {
            "file": path,
            "sha256": hashlib.sha256(binary.code).hexdigest(),
            "bytes": len(binary.code),
            "symbol": binary.symbol,
            "num_warps": binary.num_warps,
            "num_ctas": binary.num_ctas,
            "shared": binary.shared,
            "global_scratch": binary.global_scratch,
            "global_scratch_align": binary.global_scratch_align,
            "registers": binary.registers,
            "spills": binary.spills,
            "starts_early": binary.starts_early,
            **({"maps": json.loads(binary.maps)} if binary.maps else {}),
            **({"carveout": binary.carveout} if binary.carveout else {}),
        }
    for one in precompiled.refused:
        told = kernels[one.kernel].setdefault("refused", {}).setdefault(one.target, [])
        told.append({"num_warps": one.num_warps, "spills": one.spills})
    return kernels


def _maps(kernel: KernelSource) -> dict[str, Any]:
    """The descriptors that a launch makes; sizes are in places of arguments: a0, a1."""
    if not kernel.all_maps:
        return {}
    places = {arg.name: number for number, arg in enumerate(kernel.args)}

    def text(number: Int) -> int | str:
        words = str(_size(number))
        return int(words) if number.constant is not None else placed(words, places)

    return {
        "maps": [
            {
                "pointer": places[one.pointer],
                "offset": text(one.offset),
                "sizes": [text(size) for size in one.sizes],
                "strides": [text(stride) for stride in one.strides],
            }
            for one in kernel.all_maps
        ]
    }


def placed(words: str, places: dict[str, int]) -> str:
    """A formula with the places of arguments for their names."""

    def renamed(name: re.Match[str]) -> str:
        return f"a{places[name[0]]}" if name[0] in places else name[0]

    return re.sub(r"[A-Za-z_]\w*", renamed, words)


def _call(call: TorchCall) -> dict[str, Any]:
    """An operator of torch; arguments as in ``_fixed``."""
    operator = call.operator
    return {
        "operator": operator.function,
        "args": [_fixed(argument) for argument in operator.args],
        "kwargs": {name: _fixed(argument) for name, argument in operator.kwargs},
        "dtypes": [None if dtype is None else str(dtype) for dtype in call.dtypes],
        "results": call.results,
        "reason": operator.reason,
    }


def _fixed(argument: Fixed) -> Any:
    """JSON where it has the type; else {"passed": n}, {"dtype": name} or {"float": text}."""
    if isinstance(argument, tuple):
        return [_fixed(part) for part in argument]
    if isinstance(argument, Passed):
        return {"passed": argument.number}
    if isinstance(argument, DType):
        return {"dtype": str(argument)}
    if isinstance(argument, float) and not math.isfinite(argument):
        return {"float": str(argument)}
    return argument


def _argument(arg: KernelArg) -> dict[str, Any]:
    made = {"dtype": str(arg.dtype), "pointer": arg.is_pointer, "written": arg.is_written}
    return made | ({"in_place": True} if arg.is_in_place else {})


def _host(host: HostBuild | None) -> dict[str, str] | None:
    return None if host is None else {"machine": host.machine, "arch": host.arch}


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    shape = [_size(dimension) for dimension in spec.shape]
    order = {"order": list(spec.order)} if spec.order else {}
    pairs = {"pairs": True} if spec.pairs else {}
    return {"name": spec.name, "dtype": str(spec.dtype), "shape": shape, **order, **pairs}


def _size(dimension: Int) -> int | str:
    return str(dimension) if dimension.constant is None else dimension.constant


def _tree(tree: Tree) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": tree.kind}
    if tree.children:
        data["children"] = [_tree(child) for child in tree.children]
    if tree.keys:
        data["keys"] = list(tree.keys)
    if tree.name:
        data["name"] = tree.name
    if tree.fields:
        data["fields"] = list(tree.fields)
    if tree.in_order:
        data["in_order"] = list(tree.in_order)
    if tree.kind == "constant":
        data["value"] = _fixed(tree.value)
    return data
