"""``quantize``: weights are stored as codes and widened in the loads of products."""

import copy
import zipfile
from math import prod
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import aotpack
from aotpack import Method
from aotpack.cli import main
from aotpack.errors import TraceError, UsageError
from aotpack.ir.ops.quantization import Quantization, read_quantization
from aotpack.ir.program import targets
from aotpack.options import BuildOptions, Source
from aotpack.pipeline import build_of
from aotpack.runtime import AotpackError, load
from aotpack.target import parse_targets
from aotpack.trace.quantize.codes import quantized

KINDS = {"int8": 1.0, "int4": 0.5, "fp8": 1.0, "int8:group=32": 1.0, "int4:group=16": 0.5}
"""Bytes of a code."""


class Tied(nn.Module):
    """An embedding, two products, and the embedding's weight again as a product's."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.up, self.down = (
            nn.Embedding(40, 256),
            nn.Linear(256, 384),
            nn.Linear(384, 256),
        )
        self.head = nn.Linear(256, 40, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.down(torch.relu(self.up(self.embed(ids)))))


def rounded(weight: torch.Tensor, quantize: str) -> torch.Tensor:
    """The weight that codes stand for, by definition."""
    kind, _, group = quantize.partition(":group=")
    largest = {"int8": 127, "int4": 7, "fp8": 448}[kind]
    length = int(group) if group else (128 if kind == "int4" else weight.shape[1])
    parts = weight.detach().float().unflatten(1, (-1, length))
    scale = (parts.abs().amax(-1, keepdim=True) / largest).to(weight.dtype).float()
    steps = (parts / scale).clamp(-largest, largest)
    steps = steps.to(torch.float8_e4m3fn).float() if kind == "fp8" else steps.round()
    return (steps * scale).flatten(1)


def reference(model: nn.Module, quantize: str) -> nn.Module:
    """A copy of a model with rounded weights, at least in float32."""
    made = copy.deepcopy(model).float()
    weights = {id(one): name for name, one in model.named_parameters() if one.ndim == 2}
    with torch.no_grad():
        for name in weights.values():
            made.get_parameter(name).copy_(rounded(model.get_parameter(name), quantize))
    return made


@pytest.fixture
def model() -> Tied:
    torch.manual_seed(0)
    return Tied().eval()


@pytest.mark.parametrize("quantize", ["int8", "int4:group=16", "fp8"])
def test_results_are_those_of_rounded_weights(model, quantize):
    ids = torch.arange(3)
    packaged = aotpack.compile(model, (ids,), quantize=quantize, target="cpu")
    wanted = reference(model, quantize)(ids)
    torch.testing.assert_close(packaged(ids), wanted, rtol=1e-4, atol=1e-5)
    assert (wanted - model(ids)).abs().max() > 1e-4  # which are others
    assert isinstance(model.up.weight, nn.Parameter)  # and the module is as it was


@pytest.mark.parametrize(("quantize", "rows"), [("int4", 1), ("fp8", 3)])
def test_triton_kernels_widen_codes_as_they_load(model, quantize, rows):
    ids = torch.arange(rows)
    packaged = aotpack.compile(model, (ids,), quantize=quantize, target="interpreter")
    wanted = reference(model, quantize)(ids)
    torch.testing.assert_close(packaged(ids), wanted, rtol=1e-4, atol=1e-5)


class TakenOnce(Tied):
    """Both readers of the tied weight get one tensor."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        weight = self.embed.weight
        x = self.down(torch.relu(self.up(nn.functional.embedding(ids, weight))))
        return nn.functional.linear(x, weight)


@pytest.mark.parametrize(
    ("quantize", "made_of", "tokens"),
    [*((kind, Tied, 2) for kind in KINDS), ("int4", TakenOnce, 50), ("fp8", TakenOnce, 2)],
)
def test_no_weight_is_stored_wide(quantize, made_of, tokens):
    """Neither by a launch nor by the weight program, and each code is stored once."""
    torch.manual_seed(0)
    source = Source(made_of().eval(), (torch.arange(tokens) % 40,))
    how = BuildOptions(targets=parse_targets("sm_90"), quantize=read_quantization(quantize))
    made = build_of(source, how)
    program = made.scheduled.on(90).program
    assert program.weight_program is None
    written = [program.buffers[name] for one in program.operations for name in targets(one)]
    assert max(prod(map(int, one.shape)) for one in written) == tokens * 384
    assert sum(weight.name.endswith("codes") for weight in made.scheduled.weights) == 3
    wide = 256 * (40 + 384 + 384)
    codes = sum(w.data.nbytes for w in made.scheduled.weights if w.name.endswith("codes"))
    assert codes == wide * KINDS[quantize]


class Unit(nn.Module):
    """A norm in front of products that share it: of three inputs, and of a gated unit."""

    def __init__(self, *, bias: bool, odd: bool) -> None:
        super().__init__()
        widths = (96, 33, 70) if odd else (64, 192, 64)
        self.parts = nn.ModuleList(nn.Linear(256, width, bias=bias) for width in widths)
        self.gain = nn.Parameter(torch.rand(256) + 0.5)
        self.mix = nn.Linear(sum(widths), 256, bias=bias)
        self.gate, self.up = (nn.Linear(256, 48, bias=bias) for _ in range(2))

    def normed(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.gain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.normed(x)
        x = x + self.mix(torch.cat([part(normed).tanh() for part in self.parts], -1))
        normed = self.normed(x)
        return nn.functional.silu(self.gate(normed)) * self.up(normed)


@pytest.mark.parametrize(
    ("quantize", "rows", "options", "packs"),
    [
        ("int4:group=32", 1, {"bias": True, "odd": False}, 3),
        ("int8", 2, {"bias": True, "odd": False}, 3),
        ("fp8", 1, {"bias": False, "odd": True}, 0),  # scales that do not lie end to end
        ("int8", 16, {"bias": True, "odd": False}, 3),
    ],
)
def test_products_of_codes_fuse_as_plain_ones_do(quantize, rows, options, packs):
    torch.manual_seed(0)
    unit, x = Unit(**options).eval(), torch.randn(rows, 256)
    plain, coded = (
        BuildOptions(targets=parse_targets("sm_90"), quantize=read_quantization(kind))
        for kind in (None, quantize)
    )
    made = [
        build_of(Source(copy.deepcopy(unit), (x,)), how).scheduled.on(90) for how in (plain, coded)
    ]
    assert len(made[1].kernels) == len(made[0].kernels)
    assert len(made[1].program.packed) == packs
    packaged = aotpack.compile(unit, (x,), quantize=quantize, target="interpreter")
    torch.testing.assert_close(packaged(x), reference(unit, quantize)(x), rtol=1e-4, atol=1e-4)


class Gated(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(depth, 5) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.gate(x)) * self.up(x)


@pytest.mark.parametrize("quantize", ["int8", "fp8"])
def test_pairs_of_products_have_a_tile_for_all_their_rows(quantize):
    """Sixteen codes a thread would be too many sums for four rows of two products."""
    torch.manual_seed(0)
    unit, x = Gated(512).eval(), torch.randn(4, 512)
    packaged = aotpack.compile(unit, (x,), quantize=quantize, target="interpreter")
    assert len(packaged.kernels) == 1
    torch.testing.assert_close(packaged(x), reference(unit, quantize)(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("quantize", "depth", "target"),
    [
        ("int4:group=16", 1040, "interpreter"),  # two steps of k, the last masked
        ("int4:group=16", 208, "interpreter"),  # groups across the halves of bytes
        ("int4:group=16", 144, "cpu"),
        ("int4:group=128", 1408, "interpreter"),  # scales of runs, the last step masked
        ("int8:group=16", 144, "interpreter"),
        ("int8", 203, "interpreter"),
        ("fp8", 131, "interpreter"),
        ("fp8", 131, "cpu"),
    ],
)
def test_codes_of_odd_rows(quantize, depth, target):
    torch.manual_seed(0)
    layer, x = nn.Linear(depth, 37).eval(), torch.randn(17, depth)
    rows = ({0: torch.export.Dim("rows", min=1, max=17)},)
    how = {"quantize": quantize, "target": target, "dynamic_shapes": rows}
    packaged, wanted = aotpack.compile(layer, (x,), **how), reference(layer, quantize)(x)
    for count in range(1, 18, 1 if depth < 1024 else 8):
        torch.testing.assert_close(packaged(x[:count]), wanted[:count], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("quantize", "why"),
    [("int4:group=32", "208 columns are no multiple of the group of 32"), ("int4", "no multiple")],
)
def test_groups_that_do_not_divide_a_row_are_refused(quantize, why):
    with pytest.raises(UsageError, match=why):
        aotpack.compile(nn.Linear(208, 37), (torch.ones(1, 208),), quantize=quantize, target="cpu")


def test_each_layer_has_its_error_in_the_summary_of_a_build(tmp_path, capsys):
    (tmp_path / "tied.py").write_text(
        "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
        "model = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 24), nn.Linear(24, 8))\n"
        "example_inputs = (torch.ones(1, 64),)\n"
    )
    command = ["build", str(tmp_path / "tied.py"), "-o", str(tmp_path), "--target", "cpu"]
    assert main([*command, "--quantize", "int4:group=32"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("int4")]
    assert [line.split(": ")[1] for line in lines] == ["0", "1", "2"]
    assert "of the weight's norm, 1,280 bytes of 8,192" in lines[0]
    assert lines[2].endswith("kept, 24 columns are no multiple of the group of 32")


def test_methods_share_codes(model):
    def entry(module: Any) -> Method:
        return Method(module, (torch.arange(2),))

    methods = {"whole": entry(model), "embedding": entry(model.embed)}
    how = BuildOptions(targets=parse_targets("cpu"), quantize=read_quantization("int8"))
    lines = build_of(Source(methods), how).quantized
    assert [line.split(":")[0] for line in lines] == ["embed", "up", "down", "head"]
    packaged = aotpack.compile(methods, quantize="int8", target="cpu")
    wanted = rounded(model.embed.weight, "int8")[:2]
    torch.testing.assert_close(packaged.embedding(torch.arange(2)), wanted)


def test_codes_of_weights_on_meta_are_bound_later(tmp_path):
    torch.manual_seed(0)
    how, x = {"quantize": "int4:group=32", "targets": "cpu", "out": tmp_path}, torch.ones(1, 64)
    shapes = nn.Sequential(nn.Linear(64, 32, device="meta"))
    wheel = aotpack.build(shapes, (x,), weights="none", **how)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    model = nn.Sequential(nn.Linear(64, 32))
    codes = quantized(model[0].weight, Quantization("int4", 32))
    bound = {"0.weight_codes": codes.codes, "0.weight_scales": codes.scales}
    packaged = load(tmp_path / "model", "cpu", weights=bound | {"0.bias": model[0].bias.detach()})
    torch.testing.assert_close(packaged(x), reference(model, how["quantize"])(x))
    with pytest.raises(AotpackError, match="0.weight_scales"):
        packaged.bind_weights({**bound, "0.weight_scales": codes.scales[:1]}, strict=False)
    with pytest.raises(AotpackError, match="'0.weight' is quantised: .* bind '0.weight_codes'"):
        packaged.bind_weights(model.state_dict())
    with pytest.raises(TraceError, match="(?s)on meta, .*0.weight_codes.*--weights none"):
        aotpack.build(shapes, (x,), **how)


@pytest.mark.parametrize(
    ("quantize", "message"),
    [
        ("int3", "quantize='int3'; accepted: int8, int4, fp8"),
        ("int4:group=24", "a power of 2: int4:group=128"),
        ("int8:size=32", "quantize='int8:size=32'; accepted"),
        ("int4:", "quantize='int4:'; accepted"),
        ("int4:group=512", "finds no layer: .*up: kept, 256 columns are no multiple .* 512"),
    ],
)
def test_other_ways_are_refused(model, quantize, message):
    with pytest.raises(UsageError, match=message):
        aotpack.compile(model, (torch.arange(2),), quantize=quantize, target="cpu")


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            weight_norm(nn.Linear(4, 4)),
            "neither with a weight of its own, but 1 ParametrizedLinear, 1 ParametrizationList. ",
        ),
        (nn.ReLU(), "neither, but no weights. "),
        (nn.Sequential(nn.Conv1d(2, 2, 1), nn.Conv1d(2, 2, 1)), "neither, but 2 Conv1d. "),
    ],
)
def test_models_without_a_layer_are_refused(layer, message):
    wanted = (
        f"finds no layer: weights of nn.Linear and nn.Embedding .*{message}Leave the option out.$"
    )
    with pytest.raises(UsageError, match=wanted):
        aotpack.compile(layer, (torch.ones(2, 4),), quantize="int8", target="cpu")


def test_exported_programs_are_refused(model):
    program = torch.export.export(model, (torch.arange(2),))
    with pytest.raises(
        UsageError, match="quantization given for a program that is already exported"
    ):
        aotpack.compile(program, (), quantize="int8", target="cpu")
