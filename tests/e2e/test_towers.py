"""The examples of several methods beside language models: Whisper and CLIP."""

import importlib

import pytest
import torch

import aotpack
from aotpack.runtime import AotpackError

clip = importlib.import_module("examples.clip")
whisper = importlib.import_module("examples.whisper.whisper")


def test_whisper_transcribes_one_sound_after_the_other():
    package = aotpack.compile(whisper.methods, target="cpu")
    found = []
    for seed in range(2):
        features = torch.randn(1, 8, 40, generator=torch.Generator().manual_seed(seed)) * 3
        ids = [1]
        for _ in range(6):
            given = torch.tensor([ids])
            logits = whisper.model(input_features=features, decoder_input_ids=given).logits
            ids.append(int(logits[0, -1].argmax()))
        found.append(whisper.transcribe(package, features, start=1, count=6))
        assert found[-1] == ids[1:]
    assert found[0] != found[1]
    with pytest.raises(AotpackError, match="package.encode|model.encode: argument 'features'"):
        package.encode(torch.zeros(1, 8, 41))


def test_the_towers_of_clip_are_one_wheel():
    package = aotpack.compile(clip.methods, target="cpu")
    ids, pixels = torch.randint(99, (2, 16)), torch.randn(3, 3, 32, 32)
    found = package.image(pixels) @ package.text(ids).T
    wanted = clip.model(input_ids=ids, pixel_values=pixels).logits_per_image
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    with pytest.raises(AotpackError, match="texts 65; accepted|texts in 1 to 64"):
        package.text(torch.zeros(65, 16, dtype=torch.int64))
