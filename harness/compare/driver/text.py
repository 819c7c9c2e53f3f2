"""Chat template and tokenizer, as the trainer has them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from .told import Told


def source(path: str) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` for a folder, a hub id or one GGUF file.

    No code that lies beside weights is run. Left open, transformers asks standard input, on which our orders come.
    """
    if path.endswith(".gguf"):
        return {
            "pretrained_model_name_or_path": str(Path(path).parent),
            "gguf_file": Path(path).name,
            "trust_remote_code": False,
        }
    return {"pretrained_model_name_or_path": path, "trust_remote_code": False}


def embeddings(path: str) -> int:
    """How many token ids the model has vectors for, by its configuration; 0 where that doesn't say."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(**source(path))
    except (OSError, ValueError):
        return 0  # loading the weights says it better
    return int(getattr(config.get_text_config(), "vocab_size", 0) or 0)


def has_images(messages: Any) -> bool:
    """Whether a conversation has images."""
    contents = [message.get("content") for message in messages]
    return any(part.get("type") == "image" for content in contents if isinstance(content, list) for part in content)


class Text:
    """The tokenizer of a model."""

    def __init__(self, path: str) -> None:
        from transformers import AutoTokenizer

        self._path = path
        self._processor: Any = None
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(**source(path))
        except (OSError, ValueError) as error:
            raise Told("weights", f"no tokenizer can be read from {path}: {error}") from error

    def facts(self) -> dict[str, Any]:
        """What the tokenizer is."""
        one = self.tokenizer
        return {
            "vocabulary": len(one),
            "bos": one.bos_token_id,
            "eos": one.eos_token_id,
            "special": sorted(one.all_special_ids),
            "has_template": bool(one.chat_template),
        }

    def render(self, conversation: dict[str, Any]) -> list[int]:
        """A conversation up to where the model speaks, as token ids.

        A plain text stands for itself, with the special tokens that the tokenizer puts around one.
        """
        if has_images(conversation.get("messages") or ()):
            return [int(token) for token in self.with_images(conversation)["input_ids"][0]]
        if conversation.get("text") is not None:
            try:
                return list(self.tokenizer(conversation["text"])["input_ids"])
            except Exception as error:  # of a library in another language; a lone surrogate will do
                raise Told("refused", f"the tokenizer refuses it: {error}") from error
        if not self.tokenizer.chat_template:
            raise Told("template", "the tokenizer has no chat template, and the data has conversations")
        try:
            found = self.tokenizer.apply_chat_template(
                conversation["messages"],
                tools=conversation.get("tools") or None,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
            )
        except Exception as error:  # templates are programs, and raise what they like
            raise Told("refused", f"the chat template refuses it: {error}") from error
        return [int(token) for token in found]

    def with_images(self, conversation: dict[str, Any]) -> dict[str, Any]:
        """What the model takes for a conversation with images: token ids (1, tokens), pixels and more."""
        import contextlib
        import io

        from PIL import Image

        if self._processor is None:
            from transformers import AutoProcessor

            try:
                self._processor = AutoProcessor.from_pretrained(**source(self._path))
            except (OSError, ValueError, ImportError) as error:
                raise Told("weights", f"no processor of images can be read from {self._path}: {error}") from error
        with contextlib.ExitStack() as opened:

            def image(given: str) -> Any:
                if given.startswith("data:"):
                    raw = base64.b64decode(given.partition(",")[2])
                    return opened.enter_context(Image.open(io.BytesIO(raw))).convert("RGB")
                return opened.enter_context(Image.open(given)).convert("RGB")

            try:
                messages = [
                    {**message, "content": [
                        {"type": "image", "image": image(part["image"])} if part.get("type") == "image" else part
                        for part in message["content"]
                    ]} if isinstance(message.get("content"), list) else message
                    for message in conversation["messages"]
                ]  # fmt: skip
                return dict(self._processor.apply_chat_template(
                    messages, tools=conversation.get("tools") or None, add_generation_prompt=True, tokenize=True,
                    return_dict=True, return_tensors="pt",
                ))  # fmt: skip
            except Exception as error:  # templates and processors raise what they like
                raise Told("refused", f"an image can't be prepared: {type(error).__name__}: {error}") from error

    def encode(self, text: str) -> list[int]:
        """A text as token ids, without special tokens around it."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: list[int], *, special: bool = True) -> str:
        """Token ids as text, without special tokens if need be."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=not special, clean_up_tokenization_spaces=False))

    def pieces(self, ids: list[int]) -> list[str]:
        """Each token as text on its own."""
        return [self.decode([token]) for token in ids]
