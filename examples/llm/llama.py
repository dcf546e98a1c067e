"""A small Llama with random weights: prefill, decode and sampling in one wheel.

aotpack examples/llm/llama.py -o dist --target cpu
"""

import torch
from decoder import methods as over_one_cache
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
name = "tiny_llama"
config = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    initializer_range=0.2,
)
model = LlamaForCausalLM(config)
methods = over_one_cache(model, slots=8, length=320, chunk=16)
