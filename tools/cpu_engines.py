"""A module as each engine for processors runs it: torch, ONNX Runtime, OpenVINO, aotpack.

ONNX Runtime and OpenVINO are measured where they are installed:
``pip install onnx onnxruntime openvino``. They get the same weights through their own importers.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aotpack.emit import write_package
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.runtime import load
from aotpack.target import CPU

Case = tuple[nn.Module, tuple[torch.Tensor, ...]]
Call = Callable[[], Any]


def build(case: Case, folder: Path) -> None:
    """Build a case's package for processors into a folder."""
    module, args = case
    write_package(Build(Source(module, args), BuildOptions((CPU,))).precompiled, folder)


def eager(case: Case, threads: int) -> Call:
    module, args = case
    return lambda: module(*args)


def channels_last(case: Case, threads: int) -> Call:
    """Eager, with weights and images in channels-last."""
    module, args = case
    last: Any = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in args]
    return lambda: last(*images)


def compiled(case: Case, threads: int) -> Call:
    module, args = case
    fast = torch.compile(module)
    fast(*args)
    return lambda: fast(*args)


def onnxruntime(case: Case, threads: int) -> Call:
    module, args = case
    runtime = importlib.import_module("onnxruntime")
    importlib.import_module("onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no more packages is the older one
        path = f"{folder}/model.onnx"
        torch.onnx.export(module, args, path, dynamo=False, opset_version=18)
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    named = zip((one.name for one in session.get_inputs()), args, strict=True)
    given = {name: x.numpy() for name, x in named}
    return lambda: session.run(None, given)[0]


def openvino(case: Case, threads: int) -> Call:
    module, args = case
    runtime = importlib.import_module("openvino")
    how = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    model = runtime.compile_model(runtime.convert_model(module, example_input=args), "CPU", how)
    given = [x.numpy() for x in args]
    return lambda: model(given)[0]


def aotpack(name: str, case: Case) -> Call:
    """The package is built in a process of its own, whose memory is not counted."""
    _, args = case
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "tools.bench_cpu", name, "--build", folder]
        subprocess.run(build, check=True)
        model = load(folder, "cpu")
    return lambda: model(*args)


PEERS: dict[str, Callable[[Case, int], Call]] = {
    "eager": eager,
    "channels-last": channels_last,
    "compile": compiled,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}
MODES = (*PEERS, "aotpack")


def prepared(mode: str, name: str, case: Case, threads: int) -> Call:
    """A case's call in a mode."""
    return aotpack(name, case) if mode == "aotpack" else PEERS[mode](case, threads)
