"""The export format "aotpack" of transformers: wheels in the folder of an exported model."""

import json
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.exporters import AutoHfExporter, ExportedModel

from aotpack.cli import main
from aotpack.errors import UsageError
from aotpack.runtime import AotpackError
from aotpack.transformers_export import AotpackConfig

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
