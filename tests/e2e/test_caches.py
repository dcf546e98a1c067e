"""Caches of transformers: what its exporters make is packaged, and gives the tokens of eager.

The module of a decoder holds a static cache as state; `DynamoExporter` makes it arguments and
results.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.cache_utils import (
    Cache,
    DynamicCache,
    DynamicLayer,
    StaticLayer,
    StaticSlidingWindowLayer,
)
from transformers.exporters import DynamoConfig, DynamoExporter
from transformers.exporters.exporter_dynamo import register_pytree_node
from transformers.integrations.executorch import (
    TorchExportableModuleForDecoderOnlyLM,
    TorchExportableModuleWithStaticCache,
)

import aotpack
from aotpack.errors import TraceError
from aotpack.runtime import AotpackError
from aotpack.trace.load import load_model

LENGTH, COUNT = 16, 6
PROMPT = [3, 1, 4, 1, 5]
TINY = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
}
SIZES = {"batch_size": 1, "max_cache_len": LENGTH}
TOKENS = Dim("tokens", min=1, max=LENGTH)
DYNAMIC = {"input_ids": {1: TOKENS}, "cache_position": {0: TOKENS}}


def made(kind: type, config: Any) -> PreTrainedModel:
    torch.manual_seed(1)
    model = kind(config).eval()
    model.generation_config = GenerationConfig(
        use_cache=True, cache_implementation="static", cache_config=SIZES, pad_token_id=0
    )
    return model


@pytest.fixture(scope="module")
def llama() -> PreTrainedModel:
    return made(LlamaForCausalLM, LlamaConfig(**TINY))


def eager(model: PreTrainedModel, prompt: list[int]) -> list[int]:
    """Greedy tokens, without a cache."""
    ids = [*prompt]
    for _ in range(COUNT):
        ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def told(call: Callable[..., Any], prompt: list[int], *, at_once: bool) -> list[int]:
    """Greedy tokens of a package whose cache is state."""
    given, found, place = [*prompt], [], 0
    while len(found) < COUNT:
        new = given if at_once else given[:1]
        logits = call(input_ids=np.array([new]), cache_position=np.arange(place, place + len(new)))
        given, place = given[len(new) :], place + len(new)
        if not given:
            found.append(int(logits[0, -1].argmax()))
            given = found[-1:]
    return found


def exported(model: PreTrainedModel, count: int, **options: Any) -> torch.export.ExportedProgram:
    module = TorchExportableModuleForDecoderOnlyLM(model)
    ids, places = torch.tensor([PROMPT[:count]]), torch.arange(count)
    return module.export(input_ids=ids, cache_position=places, strict=False, **options)


def test_a_file_of_a_program_of_any_length(llama, tmp_path):
    torch.export.save(exported(llama, 5, dynamic_shapes=DYNAMIC), tmp_path / "llama.pt2")
    loaded = load_model(str(tmp_path / "llama.pt2"))
    model = aotpack.compile(loaded.module, loaded.args, loaded.kwargs, target="cpu")
    for prompt in PROMPT, PROMPT[1:4], [7]:
        assert told(model, prompt, at_once=True) == eager(llama, prompt)
    assert set(model.state) == {"cumulative_length_0", "key_cache_0", "value_cache_0"}


def test_a_program_with_the_hybrid_cache_of_sliding_windows():
    config = Gemma3TextConfig(
        **TINY, head_dim=8, sliding_window=LENGTH, layer_types=["sliding_attention"]
    )
    model = made(Gemma3ForCausalLM, config)
    program = exported(model, 1)
    package = aotpack.compile(program, target="cpu")  # on its own inputs
    assert told(package, PROMPT, at_once=False) == eager(model, PROMPT)
    with pytest.raises(AotpackError, match="'input_ids' has size 5 in dimension 1; accepted: 1"):
        told(package, PROMPT, at_once=True)


def hybrid() -> Gemma3TextConfig:
    """A window of four tokens in one layer, all of them in the other."""
    kinds = ["sliding_attention", "full_attention"]
    sizes = TINY | {"num_hidden_layers": 2}
    return Gemma3TextConfig(**sizes, head_dim=8, sliding_window=4, layer_types=kinds)


RECIPES = {
    "qwen3, any length": (Qwen3ForCausalLM, lambda: Qwen3Config(**TINY, head_dim=8), DYNAMIC),
    "gemma3, any length": (Gemma3ForCausalLM, hybrid, DYNAMIC),
    "gemma3, one token": (Gemma3ForCausalLM, hybrid, None),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_programs_of_modules_with_a_static_cache(recipe):
    kind, config, shapes = RECIPES[recipe]
    model, count = made(kind, config()), 5 if shapes else 1
    given = {
        "input_ids": torch.tensor([PROMPT[:count]]),
        "cache_position": torch.arange(count),
    }
    module = TorchExportableModuleWithStaticCache(model)
    program = torch.export.export(module, (), given, dynamic_shapes=shapes, strict=False)
    package = aotpack.compile(program, *program.example_inputs, target="cpu")
    wanted = eager(model, PROMPT)
    assert told(package, PROMPT, at_once=shapes is not None) == wanted
    assert {"key_cache_0", "value_cache_0"} <= {*package.state}
    with pytest.raises(AotpackError, match="'input_ids' (has|makes)"):
        package(input_ids=np.zeros((1, LENGTH + 1), np.int64), cache_position=np.arange(LENGTH + 1))


# --- caches as arguments and results -------------------------------------------------------------


def components(
    llama: PreTrainedModel, config: DynamoConfig
) -> dict[str, torch.export.ExportedProgram]:
    """Prefill and decode, as transformers exports them."""
    ids = torch.tensor([PROMPT])
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    how = GenerationConfig(
        do_sample=False, pad_token_id=0, cache_implementation="static", max_cache_len=LENGTH
    )
    found = DynamoExporter().export_for_generation(llama, given, config, generation_config=how)
    return {name: one.program for name, one in found.components.items()}


@pytest.fixture(scope="module")
def split(llama: PreTrainedModel) -> dict[str, torch.export.ExportedProgram]:
    return components(llama, DynamoConfig())


@pytest.fixture(scope="module")
def any_length(llama: PreTrainedModel) -> dict[str, torch.export.ExportedProgram]:
    return components(llama, DynamoConfig(dynamic=True))


def generated(model: Any, prompt: list[int], cache: Any = None) -> list[int]:
    """Greedy tokens of a package of such programs, whose cache is state or goes by the caller."""

    def logits(call: Callable[..., Any], ids: list[int], place: int, **more: Any) -> int:
        nonlocal cache
        given = {} if cache is None else {"past_key_values": cache}
        places = np.arange(place, place + len(ids))[None]
        result = call(input_ids=np.array([ids]), position_ids=places, **given, **more)
        cache = None if cache is None else result.past_key_values
        return int(result.logits[0, -1].argmax())

    found = [logits(model.prefill, prompt, 0)]
    for place in range(len(prompt), len(prompt) + COUNT - 1):
        seen = np.arange(LENGTH)[None, None, None] <= place
        found.append(logits(model.decode, found[-1:], place, attention_mask=seen))
    return found


def test_a_cache_goes_from_result_to_argument(llama, split):
    methods = {n: aotpack.Method(one, *one.example_inputs) for n, one in split.items()}
    model = aotpack.compile(methods, target="cpu")
    empty = {
        "is_initialized": False,
        "max_cache_len": LENGTH,
        "cumulative_length": np.zeros((), np.int64),
    }
    cache: Any = {"layers": [empty], "offloading": False}
    assert generated(model, PROMPT, cache) == eager(llama, PROMPT)
    with pytest.raises(AotpackError, match=r"layers\[0\].max_cache_len' is 17; .* traced with 16"):
        model.prefill(
            input_ids=np.array([PROMPT]),
            position_ids=np.arange(5)[None],
            past_key_values=cache | {"layers": [empty | {"max_cache_len": 17}]},
        )


def test_the_cache_of_these_programs_as_state(llama, split):
    """Nothing of it passes through the caller."""
    methods = {n: aotpack.Method(one, *one.example_inputs) for n, one in split.items()}
    model = aotpack.compile(aotpack.with_state(methods, "past_key_values"), target="cpu")
    assert "past_key_values_layers_0_keys" in model.state
    for _ in range(2):
        start = {name: np.zeros_like(one.numpy()) for name, one in model.state.items()}
        model.bind_weights(start, strict=False)
        assert generated(model, PROMPT) == eager(llama, PROMPT)
    with pytest.raises(AotpackError, match="'past_key_values' is no input of the package"):
        model.decode(input_ids=np.array([[1]]), past_key_values={})


@pytest.mark.parametrize("is_state", [False, True])
def test_these_programs_of_any_length(llama, any_length, is_state):
    """`dynamic=True` asks for all sizes; export fixes most of them, such as the heads' width."""
    methods = {n: aotpack.Method(one, *one.example_inputs) for n, one in any_length.items()}
    empty = copy.deepcopy((methods["prefill"].kwargs or {})["past_key_values"])
    made = aotpack.with_state(methods, "past_key_values") if is_state else methods
    model = aotpack.compile(made, target="cpu")
    for prompt in PROMPT, PROMPT[1:4], PROMPT * 2:
        if is_state:
            start = {name: np.zeros_like(one.numpy()) for name, one in model.state.items()}
            model.bind_weights(start, strict=False)
        cache = None if is_state else copy.deepcopy(empty)
        assert generated(model, prompt, cache) == eager(llama, prompt)
    with pytest.raises(AotpackError, match="argument 'input_ids' makes .* 1 .* 2 to"):
        generated(model, [7], None if is_state else copy.deepcopy(empty))


def test_a_file_of_these_programs_is_refused(any_length, split, tmp_path):
    for name, program in (*any_length.items(), *split.items()):
        torch.export.save(program, tmp_path / f"{name}.pt2")
        with pytest.raises(
            TraceError,
            match=r"names transformers.cache_utils.StaticCache, which .* a model file \(.py\)",
        ):
            load_model(str(tmp_path / f"{name}.pt2"))


def test_the_module_of_a_decoder_is_given_as_a_program(llama):
    module = TorchExportableModuleForDecoderOnlyLM(llama)
    given = {"input_ids": torch.tensor([PROMPT]), "cache_position": torch.arange(5)}
    with pytest.raises(
        TraceError, match=r"(?s)not pass cache_position on, .* module.export\(.* or .*module.model"
    ):
        aotpack.compile(module, (), given, target="cpu")
    model = aotpack.compile(module.model, (), given, dynamic_shapes=DYNAMIC, target="cpu")
    assert told(model, PROMPT, at_once=True) == eager(llama, PROMPT)


class Step(nn.Module):
    """One layer of a cache, as attention calls it."""

    def forward(self, x: torch.Tensor, past_key_values: Cache) -> dict[str, Any]:
        keys, values = past_key_values.update(x, x, 0)
        return {"seen": keys * values, "past_key_values": past_key_values}


class Numbered(StaticLayer):
    """It has a dict whose keys are no text, which may decide what a program does."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.is_updated = {0: True}


def step(cache: Cache) -> torch.export.ExportedProgram:
    """A program over a cache that one call has filled."""
    x = torch.ones(1, 1, 1, 8)
    register_pytree_node(type(cache))
    cache.update(x, x, 0)
    return torch.export.export(Step(), (), {"x": x, "past_key_values": cache})


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (DynamicLayer(), "contains a DynamicCache, which grows.*make a StaticCache once"),
        (
            StaticSlidingWindowLayer(LENGTH, sliding_window=4),
            r"past_key_values.layers\[0\].cumulative_length_int is 1 before .* 2 after.*StaticLay",
        ),
        (
            Numbered(LENGTH),
            "contains a Cache with values of other kinds .items. than tensors, .* its tensors",
        ),
    ],
)
def test_caches_that_are_no_tensors_alone_are_refused(layer, message):
    cache = DynamicCache() if isinstance(layer, DynamicLayer) else Cache(layers=[layer])
    program = step(cache)
    with pytest.raises(TraceError, match=message):
        aotpack.compile(program, *program.example_inputs, target="cpu")


def test_a_static_layer_is_accepted_as_another_object_with_its_tensors():
    program = step(Cache(layers=[StaticLayer(LENGTH)]))
    model, cache = (
        aotpack.compile(program, *program.example_inputs, target="cpu"),
        Cache(layers=[StaticLayer(LENGTH)]),
    )
    x = torch.full((1, 1, 1, 8), 2.0)
    cache.update(x, x, 0)
    found = model(x=x, past_key_values=cache)
    assert found["seen"][0, 0, :3].mean(-1).tolist() == [4, 4, 0]
    assert int(found["past_key_values"].layers[0].cumulative_length) == 2
