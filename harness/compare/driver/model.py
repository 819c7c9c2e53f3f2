"""Weights in, hidden states out; memory is bounded by a number of tokens, whatever the data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .text import source
from .told import Told, of_memory

# Logits of one chunk of positions, in bytes and in the widest type that is in use at the time, as a part of the bytes
# of the weights that make them: each chunk reads all of these. Their log-softmax takes as much again.
_LOGITS_SHARE, _LOGITS_BYTES = 0.125, 6e6
# Of what is free, that weights may take beside others.
_BESIDE = 0.125
_SIZES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


class _Captured(Exception):
    """The hidden states are there; the logits of all positions at once are not wanted."""


class Model:
    """A causal language model for teacher forcing.

    Args:
        asked: ``path``, ``dtype``, ``device``, ``batch_tokens``, ``spare`` (bytes that have to stay free).
        tokenizer: for the check that both go together.
    """

    def __init__(self, asked: dict[str, Any], tokenizer: Any) -> None:
        from transformers import AutoConfig

        self.path, self.dtype_name = asked["path"], asked["dtype"]
        self.batch_tokens = int(asked.get("batch_tokens") or 1024)
        self.dtype = getattr(torch, self.dtype_name)
        self.device = torch.device(_device(asked.get("device") or ""))
        try:
            self.config = AutoConfig.from_pretrained(**source(self.path))
        except (OSError, ValueError) as error:
            raise Told("weights", f"no configuration can be read from {self.path}: {error}") from error
        self._fits(int(asked.get("bytes") or 0), float(asked.get("free") or 0))
        self.module = _load(self.path, self.dtype, self.device)
        self.text_config = self.config.get_text_config() if hasattr(self.config, "get_text_config") else self.config
        self.head = self.module.get_output_embeddings()
        self._after = _after_head(self.text_config)
        self._head_checked = False
        self.eos = tokenizer.eos_token_id
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else (tokenizer.eos_token_id or 0)

    def facts(self) -> dict[str, Any]:
        """What is loaded."""
        import transformers

        config = self.text_config
        return {
            "parameters": sum(parameter.numel() for parameter in self.module.parameters()),
            "context": getattr(config, "max_position_embeddings", None),
            "embeddings": self.head.weight.shape[0],
            "architecture": (self.config.architectures or [type(self.module).__name__])[0],
            "rope": _rope_of(config),
            "dtype": self.dtype_name,
            "device": str(self.device),
            "attention": getattr(config, "_attn_implementation", None),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def touch(self) -> None:
        """Have all weights in memory: what is read from a mapped file only when it is used would count as overhead."""
        for parameter in self.module.parameters():
            parameter.detach().flatten()[::512].sum()

    def hidden(
        self, rows: Sequence[Sequence[int]], starts: Sequence[int], images: dict[str, Any] | None = None
    ) -> list[torch.Tensor]:
        """The states from which the tokens from ``starts`` on are predicted, a tensor (tokens, width) a row.

        Args:
            images: what a processor made of the prompt of the only row: pixels, and what it says of each token.
        """
        longest = max(len(row) for row in rows)
        ids = torch.full((len(rows), longest), self.pad, dtype=torch.long)
        mask = torch.zeros((len(rows), longest), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row, dtype=torch.long)
            mask[number, : len(row)] = 1
        kept: list[torch.Tensor] = []

        def capture(_module: Any, arguments: tuple[Any, ...]) -> None:
            states = arguments[0]
            kept.extend(
                states[number, start - 1 : len(row) - 1].clone()
                for number, (row, start) in enumerate(zip(rows, starts, strict=True))
            )
            raise _Captured

        hook = self.head.register_forward_pre_hook(capture)
        try:
            with torch.inference_mode():
                self.module(input_ids=ids.to(self.device), attention_mask=mask.to(self.device), use_cache=False,
                            **self._beside(images or {}, longest))  # fmt: skip
        except _Captured:
            pass
        finally:
            hook.remove()
        return kept

    def _beside(self, images: dict[str, Any], longest: int) -> dict[str, torch.Tensor]:
        """Pixels in the model's dtype, and kinds of tokens (1, tokens) prolonged over the output, which is text."""
        found = {}
        for name, value in images.items():
            if name in ("input_ids", "attention_mask") or not isinstance(value, torch.Tensor):
                continue
            if value.shape == images["input_ids"].shape:
                value = torch.nn.functional.pad(value, (0, longest - value.shape[1]))
            found[name] = value.to(self.device, self.dtype if value.is_floating_point() else value.dtype)
        return found

    def logits(self, states: torch.Tensor) -> Iterator[torch.Tensor]:
        """Logits (positions, vocabulary) in float32 or wider, a chunk of positions at a time."""
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        weight = self.head.weight
        most = max(_LOGITS_BYTES, _LOGITS_SHARE * weight.numel() * weight.element_size())
        size = max(1, int(most / (weight.shape[0] * torch.finfo(wide).bits / 8)))
        with torch.inference_mode():
            for chunk in states.split(size):
                yield self._after(self.head(chunk)).to(wide)

    def check_head(self, row: Sequence[int]) -> None:
        """That what is computed here behind the model's last layer is what the model itself computes."""
        if self._head_checked:
            return
        short = list(row[:8])
        with torch.inference_mode():
            whole = self.module(input_ids=torch.tensor([short], device=self.device), use_cache=False).logits[0]
        ours = torch.cat(list(self.logits(self.hidden([short], [1])[0])))
        if not torch.allclose(ours, whole[:-1].to(ours.dtype), atol=5e-2, rtol=5e-2):
            raise Told("failed", f"{type(self.module).__name__} does something to its logits that is not known here")
        self._head_checked = True

    @contextlib.contextmanager
    def changed(self, change: dict[str, Any] | None) -> Iterator[None]:
        """The same weights with another rope or another attention for a while.

        Args:
            change: ``{"rope_theta": number}``, ``{"rope_scaling": None}``; None changes nothing.
        """
        if not change:
            yield
            return
        undo = _with_rope(self.module, self.text_config, change)
        try:
            yield
        finally:
            undo()

    def _fits(self, size: int, free: float) -> None:
        """That the weights fit into what is free, before they are read."""
        needed = bytes_needed(size, self.config, self.dtype_name)
        free = _free_on(self.device, free)
        if size and free and needed > free * 0.95:
            raise Told("memory", f"the model in {self.dtype_name} takes some {needed / 1e9:.1f} GB", needed=needed,
                       free=free, half=bytes_needed(size, self.config, "bfloat16"))  # fmt: skip


def bytes_needed(size: int, config: Any, dtype: str) -> float:
    """Of weights in a dtype.

    Args:
        size: bytes of their files.
        config: says in which dtype these are.
    """
    stored = str(getattr(config, "torch_dtype", None) or getattr(config, "dtype", None) or "bfloat16")
    return size * _SIZES[dtype] / _SIZES.get(stored.removeprefix("torch."), 2)


def room_for(asked: dict[str, Any]) -> bool:
    """Whether weights may be kept beside others: they take a small part of what is free. Not where that isn't known."""
    from transformers import AutoConfig

    try:
        needed = bytes_needed(int(asked.get("bytes") or 0), AutoConfig.from_pretrained(**source(asked["path"])),
                              asked["dtype"])  # fmt: skip
    except (OSError, ValueError):
        return False
    free = _free_on(torch.device(_device(asked.get("device") or "")), float(asked.get("free") or 0))
    return 0 < needed <= free * _BESIDE


def _free_on(device: torch.device, here: float) -> float:
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else here


def _device(asked: str) -> str:
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise Told("device", f"this torch ({torch.__version__}) sees no GPU")
    return asked or ("cuda" if torch.cuda.is_available() else "cpu")


def _load(path: str, dtype: torch.dtype, device: torch.device) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    one = AutoModelForCausalLM
    with contextlib.suppress(ImportError):  # before transformers 4.45
        from transformers import AutoModelForImageTextToText

        # In this table are also some that know no images, which are in the other as well.
        config = type(AutoConfig.from_pretrained(**source(path)))
        if config in AutoModelForImageTextToText._model_mapping and config not in AutoModelForCausalLM._model_mapping:
            one = AutoModelForImageTextToText
    try:
        model = one.from_pretrained(**source(path), dtype=dtype)
    except TypeError:  # before transformers 4.56
        model = one.from_pretrained(**source(path), torch_dtype=dtype)
    except (OSError, ValueError, RuntimeError) as error:
        if of_memory(error):
            raise
        raise Told("weights", f"no weights can be read from {path}: {error}") from error
    return model.to(device).eval()


def _after_head(config: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """What some architectures do to their logits behind the last layer."""
    cap = getattr(config, "final_logit_softcapping", None)
    scale = getattr(config, "logit_scale", None)
    divisor = getattr(config, "logits_scaling", None)
    if cap:
        return lambda logits: torch.tanh(logits / cap) * cap
    if scale:
        return lambda logits: logits * scale
    if divisor:
        return lambda logits: logits / divisor
    return lambda logits: logits


def _rope_of(config: Any) -> dict[str, Any]:
    found = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    rope = dict(found) if isinstance(found, dict) else {}
    if getattr(config, "rope_theta", None) is not None:
        rope.setdefault("rope_theta", config.rope_theta)
    return {key: value for key, value in rope.items() if isinstance(value, (str, int, float))}


def _with_rope(module: Any, config: Any, change: dict[str, Any]) -> Callable[[], None]:
    """Put rotary embeddings of another configuration into the model; returns what puts the old ones back."""
    import copy

    other = copy.deepcopy(config)
    if "rope_theta" in change:
        parameters = getattr(other, "rope_parameters", None)
        if isinstance(parameters, dict):
            other.rope_parameters = {**parameters, "rope_theta": change["rope_theta"]}
        if hasattr(other, "rope_theta"):
            other.rope_theta = change["rope_theta"]
    if "rope_scaling" in change:
        theta = _rope_of(config).get("rope_theta", 10000.0)
        if hasattr(other, "rope_parameters"):
            other.rope_parameters = {"rope_type": "default", "rope_theta": theta}
        else:
            other.rope_scaling = None
    replaced: list[tuple[Any, str, Any]] = []
    for parent in module.modules():
        for name, child in list(parent.named_children()):
            if hasattr(child, "inv_freq") and "Rotary" in type(child).__name__:
                weight = next(module.parameters())
                setattr(parent, name, type(child)(config=other).to(weight.device))
                replaced.append((parent, name, child))
    if not replaced:
        raise Told("failed", "no rotary embeddings are found in this model")

    def undo() -> None:
        for parent, name, child in replaced:
            setattr(parent, name, child)

    return undo
