"""A small Qwen3 with random weights: normalised queries and keys, tied embeddings.

aotpack examples/llm/qwen3.py -o dist --target cpu
"""

import torch
from decoder import methods as over_one_cache
from transformers import Qwen3Config, Qwen3ForCausalLM

torch.manual_seed(0)
name = "tiny_qwen3"
config = Qwen3Config(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    tie_word_embeddings=True,
    initializer_range=0.2,
)
model = Qwen3ForCausalLM(config)
methods = over_one_cache(model, slots=8, length=320, chunk=16)
