"""Makes a real language model of Qwen2's architecture that weighs half a megabyte, with the standard library alone.

It is written twice, as a Hugging Face folder (safetensors) and as GGUF, with the same weights. Both can be served by
the real engines. Whatever it is asked, under greedy decoding it answers ``REPLY`` and stops: the output layer is made
so that each word calls for the next one. Attention and feed-forward layers hold small noise, so that they matter to
log-probabilities but not to the words. At temperature 1 about one token in ten is another.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path

REPLY = "This is a tiny model made for tests."

HIDDEN, HEADS, KV_HEADS, LAYERS, FEED_FORWARD, CONTEXT = 64, 2, 1, 2, 128, 32768
HEAD = HIDDEN // HEADS
EPSILON, ROPE = 1e-6, 1_000_000.0

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

TEMPLATE = (
    "{%- if tools %}{{- '<|im_start|>system\\nTools:\\n' }}"
    "{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

# How Qwen2 cuts text into words before byte pairs are merged.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

Tensor = tuple[tuple[int, ...], list[float]]


def write_folder(folder: Path, *, seed: int = 1) -> Path:
    """Write the model in Hugging Face layout; the same seed gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens, merges = vocabulary()
    ids = {token: number for number, token in enumerate(tokens)}
    _write_json(
        folder / "config.json",
        {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "attention_dropout": 0.0,
            "bos_token_id": ids[END_OF_TEXT],
            "eos_token_id": ids[END],
            "hidden_act": "silu",
            "hidden_size": HIDDEN,
            "initializer_range": 0.02,
            "intermediate_size": FEED_FORWARD,
            "max_position_embeddings": CONTEXT,
            "max_window_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "num_key_value_heads": KV_HEADS,
            "rms_norm_eps": EPSILON,
            "rope_theta": ROPE,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": len(tokens),
        },
    )
    _write_json(folder / "generation_config.json", {"eos_token_id": ids[END], "pad_token_id": ids[END_OF_TEXT]})
    special = [END_OF_TEXT, START, END]
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": END_OF_TEXT,
            "model_max_length": CONTEXT,
            "clean_up_tokenization_spaces": False,
            "chat_template": TEMPLATE,
        },
    )
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": _SPLIT}, "behavior": "Isolated", "invert": False}
    _write_json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {"id": ids[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False}
                | {"normalized": False, "special": True}
                for token in special
            ],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": byte_level,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": "",
                "end_of_word_suffix": "",
                "fuse_unk": False,
                "byte_fallback": False,
                "vocab": {token: number for token, number in ids.items() if token not in special},
                "merges": [" ".join(pair) for pair in merges],
            },
        },
    )
    _write_safetensors(folder / "model.safetensors", _weights(tokens, seed))
    return folder


def write_gguf(file: Path, *, seed: int = 1) -> Path:
    """Write the same model as GGUF, in 32-bit floats."""
    file.parent.mkdir(parents=True, exist_ok=True)
    tokens, merges = vocabulary()
    ids = {token: number for number, token in enumerate(tokens)}
    fields: list[tuple[str, str, object]] = [
        ("general.architecture", "string", "qwen2"),
        ("general.name", "string", "tiny"),
        ("general.file_type", "uint32", 0),
        ("qwen2.block_count", "uint32", LAYERS),
        ("qwen2.context_length", "uint32", CONTEXT),
        ("qwen2.embedding_length", "uint32", HIDDEN),
        ("qwen2.feed_forward_length", "uint32", FEED_FORWARD),
        ("qwen2.attention.head_count", "uint32", HEADS),
        ("qwen2.attention.head_count_kv", "uint32", KV_HEADS),
        ("qwen2.attention.layer_norm_rms_epsilon", "float32", EPSILON),
        ("qwen2.rope.freq_base", "float32", ROPE),
        ("tokenizer.ggml.model", "string", "gpt2"),
        ("tokenizer.ggml.pre", "string", "qwen2"),
        ("tokenizer.ggml.tokens", "strings", tokens),
        # 1: an ordinary token, 3: one that steers.
        ("tokenizer.ggml.token_type", "int32s", [3 if token.startswith("<|") else 1 for token in tokens]),
        ("tokenizer.ggml.merges", "strings", [" ".join(pair) for pair in merges]),
        ("tokenizer.ggml.eos_token_id", "uint32", ids[END]),
        ("tokenizer.ggml.padding_token_id", "uint32", ids[END_OF_TEXT]),
        ("tokenizer.ggml.add_bos_token", "bool", False),
        ("tokenizer.chat_template", "string", TEMPLATE),
    ]
    tensors = {_gguf_name(name): tensor for name, tensor in _weights(tokens, seed).items()}
    with file.open("wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)))
        for key, kind, value in fields:
            out.write(_gguf_text(key) + _gguf_value(kind, value))
        offset = 0
        for name, (shape, values) in tensors.items():
            # GGUF names the fastest dimension first.
            out.write(_gguf_text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape)))
            out.write(struct.pack("<IQ", 0, offset))
            offset += -(-len(values) * 4 // 32) * 32
        for _, values in tensors.values():
            out.write(bytes(-out.tell() % 32))
            out.write(struct.pack(f"<{len(values)}f", *values))
    return file


def vocabulary() -> tuple[list[str], list[tuple[str, str]]]:
    """All tokens (256 bytes, the beginnings of the reply's words, three specials) by id, and the merges."""
    tokens = [_byte_name(number) for number in range(256)]
    merges: list[tuple[str, str]] = []
    for word in _reply_words():
        for end in range(1, len(word)):
            if word[: end + 1] not in tokens:
                tokens.append(word[: end + 1])
                merges.append((word[:end], word[end]))
    return [*tokens, END_OF_TEXT, START, END], merges


def _reply_words() -> list[str]:
    """The reply as tokens; byte-level vocabularies write a space as Ġ."""
    return [
        word
        for part in REPLY.replace(" ", " Ġ").split(" ")
        for word in ([part[:-1], "."] if part[-1] == "." else [part])
    ]


def _byte_name(number: int) -> str:
    """The printable letter by which byte-level vocabularies write a byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if number in plain:
        return chr(number)
    return chr(256 + [other for other in range(256) if other not in plain].index(number))


def _weights(tokens: list[str], seed: int) -> dict[str, Tensor]:
    """All tensors under their Hugging Face names, with values that bfloat16 can hold."""
    noise = random.Random(seed)
    chain = [*_reply_words(), END]
    ids = {token: number for number, token in enumerate(tokens)}

    def small(*shape: int, scale: float = 0.02) -> Tensor:
        return shape, [_bfloat16(noise.gauss(0, scale)) for _ in range(math.prod(shape))]

    def ones(size: int) -> Tensor:
        return (size,), [1.0] * size

    embeddings = [_unit(noise) for _ in tokens]
    # The first dimension says "this is no word of the reply", upon which the reply begins.
    for token, vector in zip(tokens, embeddings, strict=True):
        vector[0] = 0.0
        if token not in chain[:-1]:
            vector[:] = [value * math.sqrt(0.5) for value in vector]
            vector[0] = math.sqrt(0.5)
    output = [[noise.gauss(0, 0.02) for _ in range(HIDDEN)] for _ in tokens]
    output[ids[chain[0]]] = [math.sqrt(2.0), *[0.0] * (HIDDEN - 1)]
    for word, following in itertools.pairwise(chain):
        output[ids[following]] = embeddings[ids[word]][:]

    tensors: dict[str, Tensor] = {"model.embed_tokens.weight": _flat(embeddings)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors[prefix + "input_layernorm.weight"] = ones(HIDDEN)
        for name, width in (("q", HEADS * HEAD), ("k", KV_HEADS * HEAD), ("v", KV_HEADS * HEAD)):
            tensors[f"{prefix}self_attn.{name}_proj.weight"] = small(width, HIDDEN)
            tensors[f"{prefix}self_attn.{name}_proj.bias"] = small(width)
        tensors[prefix + "self_attn.o_proj.weight"] = small(HIDDEN, HEADS * HEAD)
        tensors[prefix + "post_attention_layernorm.weight"] = ones(HIDDEN)
        tensors[prefix + "mlp.gate_proj.weight"] = small(FEED_FORWARD, HIDDEN)
        tensors[prefix + "mlp.up_proj.weight"] = small(FEED_FORWARD, HIDDEN)
        tensors[prefix + "mlp.down_proj.weight"] = small(HIDDEN, FEED_FORWARD)
    tensors["model.norm.weight"] = ones(HIDDEN)
    tensors["lm_head.weight"] = _flat(output)
    return tensors


def _unit(noise: random.Random) -> list[float]:
    vector = [noise.gauss(0, 1) for _ in range(HIDDEN)]
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]


def _flat(rows: list[list[float]]) -> Tensor:
    return (len(rows), HIDDEN), [_bfloat16(value) for row in rows for value in row]


def _bfloat16(value: float) -> float:
    rounded: float = struct.unpack("<f", b"\0\0" + struct.pack("<f", value)[2:])[0]
    return rounded


def _write_safetensors(file: Path, tensors: dict[str, Tensor]) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + 2 * len(values)]}
        offset += 2 * len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            out.write(b"".join(_halves(values)))


def _halves(values: list[float]) -> Iterator[bytes]:
    for value in values:
        yield struct.pack("<f", value)[2:]


def _gguf_name(name: str) -> str:
    plain = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    name = name.replace("model.layers.", "blk.")
    for hugging_face, ggml in plain.items():
        name = name.replace(hugging_face, ggml)
    return name


def _gguf_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _gguf_value(kind: str, value: object) -> bytes:
    if kind == "string":
        return struct.pack("<I", 8) + _gguf_text(str(value))
    if kind in ("strings", "int32s"):
        assert isinstance(value, list)
        inner = 8 if kind == "strings" else 5
        items = (_gguf_text(item) if inner == 8 else struct.pack("<i", item) for item in value)
        return struct.pack("<IIQ", 9, inner, len(value)) + b"".join(items)
    number, layout = {"uint32": (4, "I"), "float32": (6, "f"), "bool": (7, "?")}[kind]
    return struct.pack(f"<I{layout}", number, value)


def _write_json(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
