"""Makes a small random Idefics3 with the tokenizer of a GGUF file, and pictures to ask it about.

``python make_vision_model.py FILE.gguf NEW_FOLDER``, on an interpreter with torch, transformers and Pillow; no
torchvision. Idefics3 is one of the few with images that vLLM's CPU build imports without torchvision as well. What a
picture shows moves its log-probs by 2 on average, so pixels that went another way can't pass for rounding.
"""

from __future__ import annotations

import base64
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw
from transformers import (
    AutoTokenizer,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessorPil,
    Idefics3Processor,
)

# Pixels a side, of a patch, and how many patches become one token.
_SIDE, _PATCH, _SCALE = 56, 14, 2
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for p in m['content'] %}"
    "{% if p['type'] == 'image' %}<image>{% else %}{{ p['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def main(gguf: str, folder: str) -> None:
    """Write weights, configuration, processor, and ``pictures.jsonl``."""
    torch.manual_seed(1)
    tokenizer: Any = AutoTokenizer.from_pretrained(str(Path(gguf).parent), gguf_file=Path(gguf).name)
    marks = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer.chat_template, tokenizer.model_max_length = _TEMPLATE, 4096
    text = {
        "model_type": "llama", "vocab_size": len(tokenizer), "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "initializer_range": 0.12, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None,
        "pad_token_id": tokenizer.pad_token_id,
    }  # fmt: skip
    vision = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
              "image_size": _SIDE, "patch_size": _PATCH}  # fmt: skip
    config = Idefics3Config(
        vision_config=vision, text_config=text, image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=_SCALE, tie_word_embeddings=False, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    Idefics3ForConditionalGeneration(config).to(torch.bfloat16).save_pretrained(folder)
    images = Idefics3ImageProcessorPil(
        size={"longest_edge": _SIDE}, max_image_size={"longest_edge": _SIDE}, do_image_splitting=False
    )
    length = (_SIDE // _PATCH // _SCALE) ** 2
    Idefics3Processor(
        image_processor=images, tokenizer=tokenizer, image_seq_len=length, chat_template=_TEMPLATE
    ).save_pretrained(folder)
    pictures(Path(folder))


def pictures(folder: Path) -> None:
    """Six pictures, in the three forms that data sets have, and a line without one."""
    drawn, lines = random.Random(1), []
    for number in range(6):
        picture = Image.new("RGB", (60 + 20 * number, 80), tuple(drawn.randrange(256) for _ in range(3)))
        ImageDraw.Draw(picture).ellipse((10, 10, 50, 50), fill=tuple(drawn.randrange(256) for _ in range(3)))
        file = folder / f"{number}.png"
        picture.save(file)
        asked = {"type": "text", "text": f"How many circles are there, and of which colour? ({number})"}
        inside = f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"
        forms: list[dict[str, Any]] = [
            {"messages": [said({"type": "image_url", "image_url": {"url": file.name}}, asked)]},
            {"prompt": [{"role": "user", "content": f"<image>{asked['text']}"}], "images": [file.name]},
            {"messages": [said(asked, {"type": "image", "image": inside})]},
        ]
        lines.append(forms[number % 3])
    lines.append({"messages": [{"role": "user", "content": "No picture here."}]})
    (folder / "pictures.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    """A user's message."""
    return {"role": "user", "content": list(parts)}


if __name__ == "__main__":
    main(*sys.argv[1:])
