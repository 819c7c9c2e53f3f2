"""Checks a folder in Hugging Face layout (``config.json``, a tokenizer, safetensors) before an engine is given it.

Engines find out late and say it badly: vLLM needs half a minute to import before it stumbles over a missing shard.
Only headers are read, so a check takes milliseconds whatever the weights weigh.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UnusableModel

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"

# Any one of these groups makes a tokenizer.
_TOKENIZERS = (
    ("tokenizer.json",),
    ("tokenizer.model",),
    ("spiece.model",),
    ("vocab.json", "merges.txt"),
    ("tekken.json",),
)

_LAYOUT = "a model folder holds config.json, a tokenizer and *.safetensors"


@dataclass(frozen=True)
class FolderModel:
    """A whole model in a folder."""

    path: Path
    files: tuple[Path, ...]
    architecture: str
    context: int | None

    @property
    def size(self) -> int:
        """Bytes of all files that an engine may read."""
        return sum(file.stat().st_size for file in self.files)


def check_folder(path: Path) -> FolderModel:
    """Check that a folder holds a whole model.

    Raises:
        UnusableModel: something is missing or damaged; the message names the file.
    """
    config = _config(path)
    weights = _weights(path)
    for file in weights:
        check_safetensors(file)
    if not _has_tokenizer(path):
        raise UnusableModel(
            f"{path} has weights but no tokenizer: no tokenizer.json, tokenizer.model, or vocab.json with merges.txt.",
            consequence="An engine could load it but not read a prompt.",
            mend="save the tokenizer there too: tokenizer.save_pretrained(FOLDER)",
        )
    text = config.get("text_config")
    inner: dict[str, Any] = text if isinstance(text, dict) else {}
    context = config.get("max_position_embeddings") or inner.get("max_position_embeddings")
    architectures = config.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else ""
    small = [file for file in path.iterdir() if file.is_file() and file.suffix != ".safetensors" and wanted(file.name)]
    return FolderModel(path, (*weights, *small), str(architecture), context if isinstance(context, int) else None)


def wanted(name: str) -> bool:
    """Whether an engine may read a file of this name; used for downloads as well.

    Files in subfolders and weights in other formats (``*.bin``, ``original/``, ``onnx/``) would only cost time.
    """
    if "/" in name or name.startswith("."):
        return False
    if name.endswith(".safetensors"):
        # Mistral's repositories carry their weights twice.
        return not name.startswith("consolidated")
    return name.endswith((".json", ".jinja", ".model", ".tiktoken")) or name in ("merges.txt", "vocab.txt")


def check_safetensors(path: Path) -> None:
    """Check that a safetensors file ends where its header says that it does.

    Raises:
        UnusableModel: truncated or damaged.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else -1
        try:
            # The format's own limit for a header is 100 MB.
            if not 0 < length <= min(size - 8, 100_000_000):
                raise ValueError
            header = json.loads(file.read(length))
            ends = [value["data_offsets"][1] for name, value in header.items() if name != "__metadata__"]
            expected = 8 + length + max(ends, default=0)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            raise _damaged(path, f"its header can't be read ({size:,} bytes)") from None
    if size != expected:
        raise _damaged(path, f"it has {size:,} bytes and should have {expected:,}")


def ggufs(path: Path) -> list[Path]:
    """GGUF files in a folder that can be served: first parts stand for all, vision projectors are left out."""
    found = sorted(file for file in path.glob("*.gguf") if not file.name.lower().startswith("mmproj"))
    return [file for file in found if "-of-" not in file.name or "-00001-of-" in file.name]


def _has_tokenizer(path: Path) -> bool:
    groups = (all((path / name).is_file() for name in group) for group in _TOKENIZERS)
    return any(groups) or any(path.glob("*.tiktoken"))


def _config(path: Path) -> dict[str, Any]:
    file = path / CONFIG
    if not file.is_file():
        raise _no_model(path)
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise UnusableModel(f"{file} can't be read: {error}", mend="download or save the model again") from None
    if not isinstance(config, dict):
        raise UnusableModel(f"{file} isn't a JSON object.", mend="download or save the model again")
    return config


def _no_model(path: Path) -> UnusableModel:
    """The error for a folder without ``config.json``, with the likeliest reason for it."""
    if (path / "adapter_config.json").is_file():
        return UnusableModel(
            f"{path} holds an adapter (LoRA), not a whole model.",
            mend="merge it into its base model (merge_and_unload) and save that, or serve the base model",
        )
    below = sorted(file.parent for file in [*path.glob(f"*/{CONFIG}"), *path.glob(f"snapshots/*/{CONFIG}")])
    if below:
        return UnusableModel(
            f"{path} holds no model itself, but {len(below)} folder{'s' if len(below) > 1 else ''} in it do.",
            mend="\n".join(f"MODEL={folder}" for folder in below[:3]),
        )
    names = sorted(item.name for item in path.iterdir())
    there = f"it holds {', '.join(names[:5])}{' …' if len(names) > 5 else ''}" if names else "it is empty"
    return UnusableModel(f"{path} is a folder without a model: no config.json; {there}.", mend=_LAYOUT)


def _weights(path: Path) -> list[Path]:
    index = path / INDEX
    if index.is_file():
        try:
            shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            if not all(isinstance(name, str) and Path(name).name == name and len(name) < 200 for name in shards):
                raise ValueError("a shard's name is no name of a file in this folder")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise UnusableModel(f"{index} can't be read: {error}", mend="download or save the model again") from None
        missing = [name for name in shards if not (path / name).is_file()]
        if missing:
            raise UnusableModel(
                f"{path} lacks {len(missing)} of the {len(shards)} weight files that {INDEX} lists: "
                f"{', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}",
                mend="download or copy the missing files",
            )
        return [path / name for name in shards]
    files = sorted(file for file in path.glob("*.safetensors") if wanted(file.name))
    if files:
        return files
    if pickled := sorted(path.glob("*.bin")) or sorted(path.glob("*.pt*")):
        raise UnusableModel(
            f"{path} has its weights as {pickled[0].name}, not as safetensors.",
            consequence="Such files run code when they are loaded, so Drydock doesn't serve them.",
            mend="load it with transformers and save_pretrained(FOLDER) it: that writes safetensors",
        )
    raise UnusableModel(f"{path} has a config.json but no weights (*.safetensors).", mend=_LAYOUT)


def _damaged(path: Path, how: str) -> UnusableModel:
    return UnusableModel(f"{path} is damaged or only half there: {how}.", mend="download or copy the file again")
