"""Makes a small random Qwen2 with the tokenizer of a folder; runs on an interpreter with torch and transformers.

``python make_model.py TOKENIZER_FOLDER NEW_FOLDER``. Its distributions are neither flat nor certain, so that log-probs
have something to differ in.
"""

from __future__ import annotations

import sys

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM


def main(tokenizer: str, folder: str) -> None:
    """Write weights, configuration and tokenizer."""
    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.12, tie_word_embeddings=False,
        eos_token_id=511, bos_token_id=None,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
