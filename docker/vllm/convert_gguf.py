"""Makes a folder of safetensors that vLLM serves out of one GGUF file.

``/opt/engine/bin/python /opt/drydock/convert_gguf.py --gguf FILE --out FOLDER``, inside the vllm image, offline. FOLDER
must not exist and appears only when it is whole; what is half-made lies beside it and is removed.

Weights are dequantised to bfloat16; what the quantisation lost stays lost. Architectures are those that transformers
reads from GGUF (Llama and Qwen2 among them).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

# Before transformers is imported, which reads it once: everything needed is in the one file.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

# Not true of any model; transformers writes it where the GGUF's tokenizer says nothing.
NO_LIMIT = 10**9


def main(arguments: list[str] | None = None) -> int:
    """Convert; the exit code is 0, or 1 with a sentence on stderr."""
    parser = argparse.ArgumentParser(prog="convert_gguf", description="Make safetensors for vLLM out of a GGUF file.")
    parser.add_argument("--gguf", type=Path, required=True, help="the GGUF file")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make; must not exist")
    options = parser.parse_args(arguments)
    if not options.gguf.is_file():
        print(f"convert_gguf: there is no file {options.gguf}", file=sys.stderr)
        return 1
    if options.out.exists():
        print(f"convert_gguf: {options.out} exists already", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{options.out.name}.part-", dir=options.out.parent))
    try:
        convert(options.gguf, part)
        part.chmod(0o755)
        for file in part.iterdir():
            file.chmod(0o644)  # whoever converts, another user may serve
        part.rename(options.out)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"convert_gguf: {options.gguf} cannot be converted: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(part, ignore_errors=True)
    size = sum(file.stat().st_size for file in options.out.iterdir())
    print(f"convert_gguf: {options.out} written, {size} bytes", flush=True)
    return 0


def convert(gguf: Path, folder: Path) -> None:
    """Write weights, configuration, tokenizer and chat template of `gguf` into `folder`."""
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    disable_progress_bar()
    print(f"convert_gguf: reading {gguf}", flush=True)
    model = _unquantised(AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32))
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    tokenizer.save_pretrained(folder)
    GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    ).save_pretrained(folder)
    _mend_tokenizer(folder / "tokenizer_config.json", AutoConfig.from_pretrained(folder).max_position_embeddings)


def _unquantised(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights in a model that does not remember its GGUF; transformers refuses to save one that does."""
    settings: dict[str, Any] = model.config.to_dict()
    settings.pop("quantization_config", None)
    config = type(model.config)(**settings)
    config.dtype = torch.bfloat16
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict(), strict=True)
    return plain.to(torch.bfloat16)


def _mend_tokenizer(path: Path, context: int) -> None:
    """Replace what transformers writes about itself by what any server can read."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    if settings.get("model_max_length", NO_LIMIT) >= NO_LIMIT:
        settings["model_max_length"] = context
    for name in ("is_local", "local_files_only", "gguf_file"):
        settings.pop(name, None)
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
