"""The export format "aotpack" of transformers: wheels in the folder of an exported model."""

import copy
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, StaticCache
from transformers.exporters import AutoHfExporter, ExportedModel

from aotpack.cli import main
from aotpack.errors import UsageError
from aotpack.runtime import AotpackError
from aotpack.transformers_export import AotpackConfig, AotpackExporter, Program, Wheel

IDS = torch.tensor([[3, 1, 4, 1, 5]])


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 16}
    config = LlamaConfig(
        **sizes, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, use_cache=False
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def folder(llama: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config, made = AotpackConfig(targets="cpu"), tmp_path_factory.mktemp("exported")
    exporter = AutoHfExporter.from_config(config)
    exporter.export(llama, {"input_ids": IDS}, config).save_pretrained(made)
    return made


def test_a_folder_that_was_saved_gives_the_results_of_the_model(llama, folder, capsys):
    loaded = ExportedModel.from_pretrained(folder, device="cpu")
    found, wanted = loaded(input_ids=IDS.flip(1)), llama(input_ids=IDS.flip(1))
    assert type(found) is type(wanted) and found.keys() == wanted.keys()
    torch.testing.assert_close(found.logits, wanted.logits)
    assert str(loaded.device) == "cpu" and loaded.dtype == torch.float32
    assert json.loads((folder / "export.json").read_text())["export_format"] == "aotpack"
    assert main(["verify", str(folder / "model.whl"), "--device", "cpu"]) == 0
    assert "largest error" in capsys.readouterr().out


def test_other_arguments_and_targets_are_refused(llama, folder):
    loaded = ExportedModel.from_pretrained(folder, device="cpu")
    with pytest.raises(AotpackError, match="'input_ids' has size 3 in dimension 1; accepted: 5"):
        loaded(input_ids=IDS[:, :3])
    exporter = AutoHfExporter.from_config(AotpackConfig())
    with pytest.raises(UsageError, match="sm_1"):
        exporter.export(llama, {"input_ids": IDS}, AotpackConfig(targets="sm_1"))


# --- prefill and decode ---------------------------------------------------------------------------

LENGTH, COUNT = 16, 5


@pytest.fixture(scope="module")
def writer() -> LlamaForCausalLM:
    torch.manual_seed(1)
    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.3}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=False)).eval()


def exported(writer: LlamaForCausalLM, config: Any) -> ExportedModel:
    how = GenerationConfig(
        do_sample=False, pad_token_id=0, cache_implementation="static", max_cache_len=LENGTH
    )
    given = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    return AotpackExporter().export_for_generation(writer, given, config, generation_config=how)


@pytest.fixture(scope="module", params=["one length", "any length"])
def made(
    writer: LlamaForCausalLM, request: pytest.FixtureRequest
) -> tuple[ExportedModel, list[torch.Tensor]]:
    """Both components, and the prompts that they take."""
    is_dynamic = request.param == "any length"
    prompts = [IDS, IDS[:, 1:3], IDS.repeat(1, 2)] if is_dynamic else [IDS, IDS.flip(1)]
    return exported(writer, AotpackConfig(targets="cpu", dynamic=is_dynamic)), prompts


def written(runners: Any, writer: LlamaForCausalLM, prompt: torch.Tensor) -> list[int]:
    """Greedy tokens of the two components over a cache of transformers."""
    cache: Any = StaticCache(writer.config, max_cache_len=LENGTH)
    given, start, found = prompt, 0, list[int]()
    while len(found) < COUNT:
        places = torch.arange(start, start + given.shape[1])[None]
        inputs = {"input_ids": given, "position_ids": places, "past_key_values": cache}
        if found:
            inputs["attention_mask"] = torch.arange(LENGTH)[None, None, None] <= places[0, -1]
        result = runners["decode" if found else "prefill"](**inputs)
        cache, start = result.past_key_values, start + given.shape[1]
        assert type(cache) is StaticCache
        found.append(int(result.logits[0, -1].argmax()))
        given = torch.tensor([found[-1:]])
    return found


def wanted(writer: LlamaForCausalLM, prompt: torch.Tensor) -> list[int]:
    ids = writer.generate(prompt, max_new_tokens=COUNT, do_sample=False, pad_token_id=0)
    return ids[0, prompt.shape[1] :].tolist()


def held(writer: LlamaForCausalLM) -> int:
    return sum(one.nbytes for one in writer.parameters())


def check(loaded: ExportedModel, writer: LlamaForCausalLM, prompts: list[torch.Tensor]) -> None:
    """Both components give the tokens of eager, from one package with one copy of the weights."""
    prefill, decode = loaded.runners["prefill"], loaded.runners["decode"]
    assert prefill.model is decode.model and prefill.method is not decode.method
    stored = sum(one.size for one in prefill.model.manifest.weights)
    assert held(writer) <= stored < 1.05 * held(writer)
    for prompt in prompts:
        assert written(loaded.runners, writer, prompt) == wanted(writer, prompt)


def test_prefill_and_decode_are_methods_of_one_wheel(made, writer, tmp_path, capsys):
    model, prompts = made
    model.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)  # over it
    assert [one.name for one in tmp_path.glob("*.whl")] == ["model.whl"]
    assert {one.name for one in tmp_path.glob("*.method.json")} == {
        "prefill.method.json",
        "decode.method.json",
    }
    check(model.to("cpu"), writer, prompts)
    loaded = ExportedModel.from_pretrained(tmp_path, device="cpu")
    check(loaded, writer, prompts)
    other = ExportedModel.from_pretrained(tmp_path, device="cpu")
    assert other.runners["decode"].model is not loaded.runners["decode"].model  # nor its state
    assert loaded.generation_config.max_cache_len == LENGTH
    assert main(["verify", str(tmp_path / "model.whl"), "--device", "cpu"]) == 0
    assert "largest error" in capsys.readouterr().out
    with pytest.raises(ValueError, match="2 components"):
        loaded(input_ids=IDS)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder in place of the hub's repositories; nothing else is read or written."""
    place = tmp_path / "hub"

    def create_repo(repo_id: str, **options: Any) -> Any:
        (place / repo_id).mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(repo_id=repo_id)

    def create_commit(repo_id: str, operations: Any, **options: Any) -> None:
        for one in operations:
            shutil.copy(one.path_or_fileobj, place / repo_id / one.path_in_repo)

    def files(repo_id: Any, names: Any, **options: Any) -> Any:
        found = [str(place / repo_id / name) for name in names]
        assert all(Path(one).exists() for one in found)
        return found

    def card(*given: Any, **options: Any) -> Any:
        return SimpleNamespace(save=lambda path: Path(path).write_text("# a card"))

    api = SimpleNamespace(create_repo=create_repo, create_commit=create_commit)
    for module in "transformers.exporters.base", "transformers.utils.hub":
        monkeypatch.setattr(f"{module}.hf_api", lambda: api)
    monkeypatch.setattr("transformers.utils.hub.create_and_tag_model_card", card)
    monkeypatch.setattr("transformers.exporters.base.cached_files", files)
    one = lambda repo_id, name, **options: files(repo_id, [name])[0]  # noqa: E731
    monkeypatch.setattr("transformers.exporters.base.cached_file", one)
    yield place


@pytest.mark.parametrize("is_saved", [True, False])
def test_the_hub_gets_and_gives_both_components(made, writer, hub, tmp_path, is_saved):
    model, prompts = made
    if is_saved:
        model.save_pretrained(tmp_path / "saved", push_to_hub=True, repo_id="me/writer")
    else:
        model.push_to_hub("me/writer")
    names = {"prefill.method.json", "decode.method.json", "model.whl", "export.json", "config.json"}
    found = {one.name for one in (hub / "me/writer").iterdir()}
    assert names | {"generation_config.json"} <= found
    check(ExportedModel.from_pretrained("me/writer", device="cpu"), writer, prompts)


def test_components_of_two_exports_are_refused_in_one_folder(made, writer, tmp_path):
    model, _ = made
    prefill, decode = model.components["prefill"], model.components["decode"]
    other = replace(decode, program=Program(Wheel(b"another"), "decode"))
    mixed = ExportedModel({"prefill": prefill, "decode": other}, "aotpack")
    with pytest.raises(UsageError, match="model.whl beside it is of another export; one folder"):
        mixed.save_pretrained(tmp_path)
    both = {"prefill": AotpackConfig(targets="cpu"), "decode": AotpackConfig(targets="sm_90")}
    with pytest.raises(UsageError, match=r"targets \['cpu', 'sm_90'\]; .* give each the same"):
        exported(copy.deepcopy(writer), both)
