"""Low-rank adapters: PEFT's files replace one adapter, and the rows of a batch choose theirs."""

import json
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import aotpack
from aotpack import Method
from aotpack.runtime import AotpackError
from tools import check_llm

RANK, ALPHA = 4, 8
LAYERS = {"up": (16, 24), "down": (24, 16)}


class Lora(nn.Module):
    """A linear layer with adapters, as PEFT builds it."""

    def __init__(self, layer: nn.Linear, *adapters: str) -> None:
        super().__init__()
        rows, columns = layer.weight.shape
        self.base_layer = layer
        self.lora_A = nn.ModuleDict({n: nn.Linear(columns, RANK, bias=False) for n in adapters})
        self.lora_B = nn.ModuleDict({n: nn.Linear(RANK, rows, bias=False) for n in adapters})
        self.scaling = dict.fromkeys(adapters, ALPHA / RANK)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.base_layer(x)
        for name, down in self.lora_A.items():
            y = y + self.lora_B[name](down(x)) * self.scaling[name]
        return y


class Net(nn.Module):
    def __init__(self, *adapters: str) -> None:
        super().__init__()
        for name, (columns, rows) in LAYERS.items():
            setattr(self, name, Lora(nn.Linear(columns, rows), *adapters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


class Whole(nn.Module):
    """The names that PEFT puts in front."""

    def __init__(self, *adapters: str) -> None:
        super().__init__()
        self.base_model = nn.Module()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.base_model.model = Net(*adapters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base_model.model(x)


def written(
    folder: Path, rank: int = RANK, layers: Any = LAYERS, root: str = "", **config: Any
) -> Path:
    """An adapter's file, as a training writes it, and its configuration."""
    made = {}
    for name in layers:
        columns, rows = LAYERS.get(name, (16, 16))
        made[f"base_model.model.{root}{name}.lora_A.weight"] = torch.randn(rank, columns)
        made[f"base_model.model.{root}{name}.lora_B.weight"] = torch.randn(rows, rank)
    folder.mkdir(exist_ok=True)
    save_file(made, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": ALPHA, **config}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder / "adapter_model.safetensors"


def with_adapter(model: nn.Module, file: Path, adapter: str, **factors: float) -> nn.Module:
    """The model in eager, with the file's tensors as one of its adapters."""
    named = {
        re.sub(r"(lora_[AB])\.", rf"\1.{adapter}.", name): one
        for name, one in load_file(file).items()
    }
    assert not model.load_state_dict(named, strict=False).unexpected_keys
    for name in LAYERS:
        getattr(model.base_model.model, name).scaling[adapter] = factors.get(name, ALPHA / RANK)
    return model


X = torch.randn(3, 16)


@pytest.fixture(scope="module")
def packaged() -> Any:
    return aotpack.compile(Whole("default"), (X,), target="cpu")


@pytest.mark.parametrize(
    ("config", "factors"),
    [
        ({}, {}),
        ({"lora_alpha": 3}, {"up": 0.75, "down": 0.75}),
        ({"use_rslora": True}, {"up": 4.0, "down": 4.0}),
        ({"alpha_pattern": {"up": 2}}, {"up": 0.5}),
    ],
)
def test_a_file_of_peft_replaces_the_adapter_and_its_factors(packaged, tmp_path, config, factors):
    file = written(tmp_path / "one", **config)
    packaged.bind_weights(Whole("default").state_dict())
    packaged.bind_weights({"base_model.model.down.base_layer.bias": torch.ones(16)}, strict=False)
    packaged.bind_weights(file)
    wanted = with_adapter(Whole("default"), file, "default", **factors)
    wanted.base_model.model.down.base_layer.bias.data.fill_(1)  # the base is not bound again
    torch.testing.assert_close(packaged(X), wanted(X), rtol=1e-4, atol=1e-4)
    packaged.bind_weights(written(tmp_path / "two"))
    assert (packaged(X) - wanted(X)).abs().max() > 0.1
    packaged.bind_weights(load_file(file))  # tensors come without a configuration: 8 / 4 stays
    wanted = with_adapter(wanted, file, "default")
    torch.testing.assert_close(packaged(X), wanted(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_weights_of_the_model_put_the_factors_of_the_build_back(tmp_path, target):
    packaged, model = aotpack.compile(Whole("default"), (X,), target=target), Whole("default")
    file = written(tmp_path / "one", lora_alpha=3)
    save_file(model.state_dict(), tmp_path / "whole")
    for given in (model.state_dict(), tmp_path / "whole"):
        packaged.bind_weights(file)
        assert (packaged(X) - model(X)).abs().max() > 0.1
        with pytest.raises(AotpackError, match="is no weight of the model"):
            packaged.bind_weights(model.state_dict() | {"lost": X})
        packaged.bind_weights({"base_model.model.down.base_layer.bias": X[0]}, strict=False)
        adapted = with_adapter(Whole("default"), file, "default", up=0.75, down=0.75)
        adapted.base_model.model.down.base_layer.bias.data = X[0]
        torch.testing.assert_close(packaged(X), adapted(X), rtol=1e-4, atol=1e-4)
        packaged.bind_weights(given)
        torch.testing.assert_close(packaged(X), model(X), rtol=1e-4, atol=1e-4)
    factor = {"base_model.model.up.scaling.default": torch.tensor(3.0)}
    packaged.bind_weights(model.state_dict() | factor)
    model.base_model.model.up.scaling["default"] = 3.0
    torch.testing.assert_close(packaged(X), model(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ({"rank": 8}, {}, r"lora_A.default.weight' is float32\[8, \d+\]; accepted: float32\[4"),
        ({"layers": ["up"]}, {}, "'default': '.*down.lora_A.default.weight', .* are not given;"),
        ({"layers": [*LAYERS, "side"]}, {}, "side.lora_B.weight' are no weight of it; .*such as"),
        ({}, {"adapter": "other"}, "adapter='other' is unknown; .* of the model are 'default'"),
        ({"rank": 0}, {}, r"lora_A.default.weight' is float32\[0, \d+\]; accepted: float32\[4"),
        ({"lora_alpha": None}, {}, "adapter_config.json: it has no lora_alpha"),
        ({"lora_alpha": "8"}, {}, "lora_alpha is '8'; a number up to 1.8e.308 is accepted"),
        ({"lora_alpha": True}, {}, "lora_alpha is True; a number"),
        ({"lora_alpha": 10**400}, {}, "lora_alpha is a number of 1329 bits; a number up to"),
        ({"lora_alpha": 1e300}, {}, "alpha by rank, is 2.5e.299; what float32 holds is accepted"),
        ({"lora_alpha": float("nan")}, {}, "it is not JSON: NaN is no number"),
        ({"alpha_pattern": {"(": 12}}, {}, r"'\(' in alpha_pattern is no regular expression"),
        ({"alpha_pattern": {"u{9999999999999}": 12}}, {}, "alpha_pattern is no regular express"),
        ({"alpha_pattern": {"up": None}}, {}, r"it has no alpha_pattern\['up'\], by which"),
        ({"alpha_pattern": ["up"]}, {}, r"alpha_pattern is \['up'\]; an object of numbers"),
        ({"use_rslora": "no"}, {}, "use_rslora is 'no'; true or false is accepted"),
    ],
)
def test_adapters_of_other_shapes_and_names_are_refused(packaged, tmp_path, file, options, message):
    packaged.bind_weights(Whole("default").state_dict())
    before = packaged(X)
    with pytest.raises(AotpackError, match=message):
        packaged.bind_weights(written(tmp_path, **file), **options)
    assert torch.equal(packaged(X), before)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[]", "it is a list; an object"), ('{"lora_alpha": 1e999}', "lora_alpha is inf; a number")],
)
def test_configurations_that_say_no_factor_are_refused(packaged, tmp_path, text, message):
    file = written(tmp_path)
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(AotpackError, match=f"adapter_config.json: {message}"):
        packaged.bind_weights(file)


def test_two_spellings_of_a_weight_are_refused(packaged, tmp_path):
    tensors = load_file(written(tmp_path))
    name = "base_model.model.up.lora_A.weight"
    twice = tensors | {"base_model.model.up.lora_A.default.weight": tensors[name] + 1}
    with pytest.raises(AotpackError, match=f"'{name}'.* are both the weight .*; give one of them"):
        packaged.bind_weights(twice)


def test_one_of_several_adapters_is_named(tmp_path):
    model = Whole("french", "german")
    packaged = aotpack.compile(model, (X,), target="interpreter")
    torch.testing.assert_close(packaged(X), model(X))
    file = written(tmp_path, lora_alpha=2)
    with pytest.raises(AotpackError, match="adapter=NAME is not given; .* 'french', 'german'"):
        packaged.bind_weights(file)
    packaged.bind_weights(file, adapter="german")
    wanted = with_adapter(model, file, "german", up=0.5, down=0.5)
    torch.testing.assert_close(packaged(X), wanted(X), rtol=1e-4, atol=1e-4)


def test_codes_are_of_the_base_alone(tmp_path):
    model = Whole("default")
    packaged = aotpack.compile(model, (X,), quantize="int8", target="cpu")
    kinds = {one.name: str(one.dtype) for one in packaged.manifest.weights}
    up = "base_model.model.up"
    assert kinds[f"{up}.base_layer.weight_codes"] == "int8"
    assert kinds[f"{up}.lora_A.default.weight"] == "float32"
    file = written(tmp_path)
    packaged.bind_weights(file)
    wanted = with_adapter(model, file, "default")(X)
    assert (packaged(X) - wanted).norm() < 0.01 * wanted.norm()


def test_a_model_without_adapters_has_none(tmp_path):
    packaged = aotpack.compile(nn.Linear(16, 4), (X,), target="cpu")
    with pytest.raises(AotpackError, match="lora_A.weight' is no weight of the model"):
        packaged.bind_weights(written(tmp_path))


def test_equal_factors_of_two_methods_stay_two_weights(tmp_path):
    model = Whole("default")
    methods = {"first": Method(model, (X,)), "second": Method(model, (X[:1],))}
    packaged = aotpack.compile(methods, target="cpu")
    names = [one.names for one in packaged.manifest.weights if "scaling" in one.name]
    assert names == [(f"base_model.model.{name}.scaling.default",) for name in LAYERS]
    file = written(tmp_path, alpha_pattern={"down": 1})
    packaged.bind_weights(file)
    wanted = with_adapter(model, file, "default", down=0.25)
    torch.testing.assert_close(packaged.first(X), wanted(X), rtol=1e-4, atol=1e-4)


class Read(Lora):
    """The factor is what ``read`` finds in ``scaling``."""

    def __init__(self, read: Any) -> None:
        super().__init__(nn.Linear(16, 24), "default")
        self.read = read

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added = self.lora_B["default"](self.lora_A["default"](x))
        return self.base_layer(x) + added * self.read(self.scaling)


def read_model(read: Any) -> nn.Module:
    """Under the name that ``written`` gives it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(OrderedDict(up=Read(read)))


def named(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file under the names of ``read_model``."""
    tensors = load_file(file).items()
    return {n[len("base_model.model.") :].replace(".w", ".default.w"): one for n, one in tensors}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "read",
    [
        lambda scaling: scaling.get("default", 1.0),
        lambda scaling: dict(scaling.items())["default"],
        lambda scaling: next(iter(scaling.values())),
        lambda scaling: scaling["default"] if isinstance(scaling, dict) else 5.0,
        lambda scaling: scaling[next(iter(scaling.keys()))] if len(scaling) == 1 else 5.0,
    ],
)
def test_factors_are_read_as_from_a_dict(read, strict, tmp_path):
    model = read_model(read)
    packaged = aotpack.compile(model, (X,), target="cpu", strict=strict)
    torch.testing.assert_close(packaged(X), model(X))
    file = written(tmp_path, layers=["up"], lora_alpha=2)
    packaged.bind_weights(file)
    model.up.scaling["default"] = 0.5
    assert not model.load_state_dict(named(file), strict=False).unexpected_keys
    torch.testing.assert_close(packaged(X), model(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "read",
    [
        lambda scaling: scaling["default"] if isinstance(scaling["default"], float) else 5.0,
        lambda scaling: 3.0 if scaling["default"] == 2 else 5.0,
        lambda scaling: float(scaling["default"]),
        lambda scaling: ALPHA / RANK,
    ],
)
def test_factors_that_a_file_cannot_change_are_not_taken_from_one(read, tmp_path):
    """They are constants of the program; tensors by name keep them."""
    model = read_model(read)
    packaged = aotpack.compile(model, (X,), target="cpu")
    torch.testing.assert_close(packaged(X), model(X))
    file = written(tmp_path, layers=["up"], lora_alpha=2)
    with pytest.raises(AotpackError, match="the factor of .* would be 0.5, .* a constant. Have"):
        packaged.bind_weights(file)
    torch.testing.assert_close(packaged(X), model(X))
    packaged.bind_weights(load_file(file))
    assert not model.load_state_dict(named(file), strict=False).unexpected_keys
    torch.testing.assert_close(packaged(X), model(X), rtol=1e-4, atol=1e-4)


# --- several adapters in one batch ---------------------------------------------------------------


def merged(example: Any, adapter: int) -> Any:
    """The example's model with one adapter added to its weights."""
    config = example.config
    model = example.LlamaForCausalLM(config).eval()
    held = {name.removeprefix("model."): one for name, one in example.decoder.state_dict().items()}
    state = {}
    for name in model.state_dict():
        layer = name.removesuffix(".weight")
        state[name] = held.get(name, held.get(f"{layer}.base_layer.weight"))
        if adapter and f"{layer}.base_layer.weight" in held:
            own = example.names[adapter - 1]
            down, up = (held[f"{layer}.lora_{part}.{own}.weight"] for part in "AB")
            scaling = example.decoder.get_submodule(f"model.{layer}").scaling[own]
            state[name] = state[name] + scaling * up @ down
    model.load_state_dict(state)
    return model


def eager(model: Any, prompt: list[int], count: int) -> list[int]:
    ids = torch.tensor([prompt])
    made = model.generate(ids, max_new_tokens=count, do_sample=False, eos_token_id=None)
    return made[0, len(prompt) :].tolist()  # type: ignore[no-any-return]


def told(package: Any, prompts: list[list[int]], adapters: np.ndarray, count: int) -> Any:
    """Greedy tokens of the rows of a batch, each with its own adapter."""
    lengths = np.array([len(prompt) for prompt in prompts])
    last = [
        int(package.prefill(np.array([p]), np.array([n]), np.array([0]), adapters[[n]])[0])
        for n, p in enumerate(prompts)
    ]
    found = [last]
    for _ in range(count - 1):
        found.append(package.decode(np.array(found[-1]), lengths, adapters).tolist())
        lengths = lengths + 1
    return np.array(found).T.tolist()


def test_rows_of_a_batch_choose_their_adapters(tmp_path):
    example = check_llm.example("adapters")
    torch.manual_seed(3)
    with torch.no_grad():
        for name, one in example.decoder.named_parameters():
            if "lora" in name:
                one.normal_(0, 0.4)
    package = aotpack.compile(example.methods, target="cpu")
    prompts, rows = [[3, 1, 4], [9, 2, 6, 5], [3, 1, 4], [3, 1, 4]], np.array([1, 2, 0, 2])
    wanted = [eager(merged(example, row), p, 6) for row, p in zip(rows, prompts, strict=True)]
    assert told(package, prompts, rows, 6) == wanted
    assert wanted[0] != wanted[2] != wanted[3] != wanted[0]
    french = {
        f"base_model.model.{name.removeprefix('model.').replace('.french', '')}": one * 0.5
        for name, one in example.decoder.state_dict().items()
        if ".french." in name
    }
    save_file(french, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"lora_alpha": 10}))
    package.bind_weights(tmp_path / "adapter_model.safetensors", adapter="french")
    with torch.no_grad():
        for name, one in example.decoder.named_parameters():
            if ".french." in name:
                one.mul_(0.5)
    for one in example.decoder.modules():
        if isinstance(one, example.Adapted):
            one.scaling["french"] = 2.5
    wanted[0] = eager(merged(example, 1), prompts[0], 6)
    assert told(package, prompts, rows, 6) == wanted
    with pytest.raises(AotpackError, match="'adapters' has size 3 in dimension 0; accepted: 4"):
        package.decode(rows, rows, rows[:3])


# --- PEFT itself ---------------------------------------------------------------------------------


def test_a_model_of_peft(tmp_path):
    peft = pytest.importorskip("peft")
    options = {"r": 4, "target_modules": ["0", "2"], "init_lora_weights": False}

    def model(folder: str, **more: Any) -> nn.Module:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 16), nn.Linear(16, 8))
        config = peft.LoraConfig(**options, modules_to_save=["3"], **more)
        made = peft.get_peft_model(net, config).eval()
        with torch.no_grad():
            for name, one in made.named_parameters():
                if "lora" in name or "modules_to_save" in name:
                    one.copy_(torch.randn(one.shape) * len(folder))
        made.save_pretrained(tmp_path / folder)
        return made

    for more, quantize in ({}, None), ({"use_dora": True}, None), ({}, "int8"):
        first, other = model("a", lora_alpha=8, **more), model("bb", lora_alpha=2, **more)
        packaged = aotpack.compile(first, (X,), target="cpu", quantize=quantize)
        for net, file in ((first, None), (other, "bb")):
            if file:
                packaged.bind_weights(tmp_path / file / "adapter_model.safetensors")
            expected = net(X)
            near = 0.02 if quantize else 1e-5
            torch.testing.assert_close(
                packaged(X), expected, rtol=near, atol=near * expected.abs().max().item()
            )
