"""Makes a small random Qwen2 with the tokenizer of a GGUF file; runs on an interpreter with torch and transformers.

``python make_model.py FILE.gguf NEW_FOLDER``. Its distributions are neither flat nor certain, so that log-probs have
something to differ in. The vocabulary is the tokenizer's own of 49,152: with some hundred tokens vLLM's CPU build dies
at the first request on processors with AMX.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM


def main(gguf: str, folder: str) -> None:
    """Write weights, configuration and tokenizer."""
    torch.manual_seed(1)
    tokenizer = AutoTokenizer.from_pretrained(str(Path(gguf).parent), gguf_file=Path(gguf).name)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.12, tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.model_max_length = 4096
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
