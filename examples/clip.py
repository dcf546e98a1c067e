"""A small CLIP with random weights: two towers as two methods of one wheel.

aotpack examples/clip.py -o dist --target cpu
"""

import torch
from torch import nn
from transformers import CLIPConfig, CLIPModel

from aotpack import Method


class Towers(nn.Module):
    """Token ids or pixels -> unit vectors; their products, scaled, are CLIP's logits."""

    def __init__(self, clip: CLIPModel) -> None:
        super().__init__()
        self.clip = clip

    def text(self, ids: torch.Tensor) -> torch.Tensor:
        """Vectors of texts, (texts, tokens); the last token of each is the largest id."""
        pooled = self.clip.text_model(input_ids=ids).pooler_output
        return nn.functional.normalize(self.clip.text_projection(pooled), dim=-1)

    def image(self, pixels: torch.Tensor) -> torch.Tensor:
        """Vectors of images, (images, 3, height, width), times CLIP's scale of logits."""
        pooled = self.clip.vision_model(pixel_values=pixels).pooler_output
        unit = nn.functional.normalize(self.clip.visual_projection(pooled), dim=-1)
        return unit * self.clip.logit_scale.exp()


torch.manual_seed(0)
name = "tiny_clip"
layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
config = CLIPConfig(
    text_config={
        **layers,
        "num_attention_heads": 2,
        "vocab_size": 100,
        "max_position_embeddings": 16,
        "eos_token_id": 99,
    },
    vision_config={**layers, "num_attention_heads": 2, "image_size": 32, "patch_size": 8},
    projection_dim=16,
)
model = CLIPModel(config).eval()
towers = Towers(model)
texts, images = torch.export.Dim("texts", min=1, max=64), torch.export.Dim("images", min=1, max=8)
methods = {
    "text": Method(towers.text, (torch.randint(99, (3, 16)),), dynamic_shapes={"ids": {0: texts}}),
    "image": Method(
        towers.image, (torch.randn(2, 3, 32, 32),), dynamic_shapes={"pixels": {0: images}}
    ),
}
