"""The small examples trace; dynamic sizes carry the names their users gave."""

from pathlib import Path

import pytest

from aotpack.trace import load_model, trace

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "sizes", "operators"),
    [
        (
            "mlp",
            ["batch"],
            {"aten.linear.default", "aten.gelu.default", "aten.softmax.int"},
        ),
        ("bert_tiny", ["batch", "seq"], {"aten.scaled_dot_product_attention.default"}),
    ],
)
def test_examples(name, sizes, operators):
    loaded = load_model(str(EXAMPLES / f"{name}.py"))
    traced = trace(
        loaded.module,
        loaded.args,
        loaded.kwargs,
        dynamic_shapes=loaded.dynamic_shapes,
        name=loaded.name,
        version=loaded.version,
    )
    assert [size.name for size in traced.graph.signature.sizes] == sizes
    assert operators <= {node.op for node in traced.graph.nodes}
    assert all(error < 1e-5 for error in traced.golden.eager_errors)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) <= 60
