"""Places in the user's code are never absolute."""

from traceback import FrameSummary, StackSummary

import pytest
import torch
from torch import fx, nn
from torch.fx.proxy import TracerBase

from aotpack.trace import trace
from aotpack.trace.operators.modes import recorded_helpers
from aotpack.trace.source import is_user_file, shown_path, source_of

USER = 'File "/home/me/net.py", line 7, in forward\n    return self.inner(x)\n'
LIBRARY = 'File "/v/site-packages/zoo/net.py", line 9, in forward\n    y = self.fc(x)\n'
TORCH = 'File "/v/site-packages/torch/nn/linear.py", line 3, in forward\n    return F.linear(x)\n'
NAMELESS = 'File "<eval_with_key>.3", line 5, in forward\n    linear = 1\n'


@pytest.mark.parametrize(
    ("trace", "shown"),
    [
        (USER + TORCH, "net.py:7: return self.inner(x)"),
        (USER + LIBRARY + TORCH, "zoo/net.py:9: y = self.fc(x)"),
        (TORCH, "nn/linear.py:3: return F.linear(x)"),
        (NAMELESS, "None"),
        ("", "None"),
    ],
)
def test_source(trace, shown):
    node = fx.Graph().placeholder("x")
    node.meta["stack_trace"] = trace
    assert str(source_of(node)) == shown


def test_files():
    assert is_user_file("/home/me/torch/net.py") and is_user_file("/v/site-packages/zoo/net.py")
    assert not is_user_file(torch.__file__) and not is_user_file("<string>")
    assert shown_path("C:\\me\\net.py") == "net.py"


class _Helped(nn.Module):
    def forward(self, x):
        return self.first_part(x).cos()

    def first_part(self, x):
        return torch.sin(x)  # its own line


def test_lines_are_those_of_functions_that_forward_calls():
    traced = trace(_Helped(), (torch.ones(3),), name="m", version="1")
    lines = [str(node.source).partition(": ")[2] for node in traced.graph.nodes]
    assert lines == ["return torch.sin(x)  # its own line", "return self.first_part(x).cos()"]


@pytest.mark.parametrize(
    ("files", "kept"),
    [
        (("/me/net.py", "/me/helpers.py"), 2),
        (("/v/site-packages/zoo/net.py", "/v/site-packages/zoo/helpers.py"), 2),
        (("/me/net.py", "/v/site-packages/einops/packing.py"), 1),
        (("/v/site-packages/zoo/net.py", "/me/helpers.py"), 1),
        (("/me/net.py", torch.__file__.replace("__init__", "functional")), 1),
    ],
)
def test_lines_of_other_packages_are_left_out(files, kept):
    first, second = files
    frames = [FrameSummary("/me/run.py", 1, "main"), FrameSummary(first, 2, "forward")]
    summary = StackSummary.from_list([*frames, FrameSummary(second, 3, "helper")])
    before, tracer = TracerBase._filter_traceback_frames, fx.Tracer()
    tracer._record_forward_stack_traces_only = True
    with recorded_helpers():
        found = tracer._filter_traceback_frames(summary)
    assert [frame.lineno for frame in found] == [2, 3][:kept]
    assert TracerBase._filter_traceback_frames is before
