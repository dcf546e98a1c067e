"""A small Gemma 3 with random weights: a layer with a sliding window, and one that sees all.

aotpack examples/llm/gemma3.py -o dist --target cpu
"""

import torch
from decoder import methods as over_one_cache
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

torch.manual_seed(0)
name = "tiny_gemma3"
config = Gemma3TextConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=1,
    head_dim=16,
    query_pre_attn_scalar=16,
    sliding_window=24,
    layer_types=["sliding_attention", "full_attention"],
    tie_word_embeddings=False,  # random embeddings, tied and scaled, would repeat one token
    initializer_range=0.2,
)
model = Gemma3ForCausalLM(config)
methods = over_one_cache(model, slots=8, length=320, chunk=16)
