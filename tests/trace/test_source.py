"""Places in the user's code are never absolute."""

import pytest
import torch
from torch import fx

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
