"""How values are shown: arrays by shape, type and device; their numbers only when somebody asks for them.

Sent as source into a process that is debugged, so it stands alone: the standard library, and what is imported there.
"""

from __future__ import annotations

import pprint
import sys
from typing import Any

LONGEST = 4000
BARS = " ▁▂▃▄▅▆▇█"
BINS = 16


def evaluate(expression: str, global_names: Any, local_names: Any, how: str = "show") -> str:
    """An expression's value as text, by ``show``, ``pretty``, ``stats`` or ``text``; what it raises, after a ``!``."""
    names = {**global_names, **local_names}
    names.setdefault("decode", lambda ids: decode(ids, {**global_names, **local_names}))
    try:
        value = eval(expression, names)
        text = {"show": show, "pretty": pretty, "stats": stats}.get(how, str)(value)
        return text if len(text) <= LONGEST or how == "text" else text[:LONGEST] + "…"
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the person who asked is told
        return f"!{type(error).__name__}: {error}"


def table(names: Any) -> list[tuple[str, str]]:
    """Names and how their values read, one line each."""
    shown = []
    for name, value in names.items():
        of_the_debugger = str(getattr(value, "__module__", "")).startswith("_pydevd")
        if name.startswith("__") or type(value).__name__ == "module" or of_the_debugger:
            continue
        try:
            text = show(value)
        except Exception as error:  # noqa: BLE001  # somebody's __repr__
            text = f"!{type(error).__name__}: {error}"
        first = text.split("\n")[0]
        shown.append((name, first if len(first) <= 120 else first[:117] + "…"))
    return shown


def is_array(value: Any) -> bool:
    """Whether it is shown without a look at its numbers; a single number only where that would have to be fetched."""
    return _has_numbers(value) and (bool(value.shape) or not str(getattr(value, "device", "cpu")).startswith("cpu"))


def _has_numbers(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "shape") and hasattr(value, "dtype")


def show(value: Any) -> str:
    """One value; arrays inside lists, tuples and dictionaries by their shape, too."""
    if is_array(value):
        device = f" {value.device}" if hasattr(value, "device") else ""
        gradient = " requires_grad" if getattr(value, "requires_grad", False) else ""
        kind = str(value.dtype).replace("torch.", "")
        return f"{type(value).__name__} {tuple(value.shape)} {kind}{device}{gradient}"
    if isinstance(value, dict) and any(is_array(part) for part in value.values()):
        return "{" + ", ".join(f"{key!r}: {show(part)}" for key, part in list(value.items())[:40]) + "}"
    if isinstance(value, (list, tuple)) and any(is_array(part) for part in value[:40]):
        return f"{type(value).__name__} of {len(value)}: [" + ", ".join(show(part) for part in value[:10]) + "]"
    return repr(value)


def pretty(value: Any) -> str:
    """The same over several lines."""
    if is_array(value) or (isinstance(value, (list, tuple, dict)) and "(" in show(value)[:1]):
        return show(value)
    if isinstance(value, dict) and any(is_array(part) for part in value.values()):
        return "\n".join(f"{key!r}: {show(part)}" for key, part in value.items())
    return pprint.pformat(value, width=100)


def stats(value: Any) -> str:
    """Least, mean, greatest, how many NaN and Inf, and a histogram; on the device where the array lies."""
    if not _has_numbers(value):
        numbers = [float(part) for part in value]
        return show(value)[:80] + "\n" + _summary(*_plain(numbers))
    if type(value).__module__.split(".")[0] == "torch":
        return show(value) + "\n" + _summary(*_torch(value))
    return show(value) + "\n" + _summary(*_plain([float(part) for part in value.reshape(-1).tolist()]))


Summary = tuple[int, int, int, "tuple[float, float, float] | None", "list[int]"]


def _plain(numbers: list[float]) -> Summary:
    nans = sum(number != number for number in numbers)
    infinite = sum(abs(number) == float("inf") for number in numbers)
    finite = [number for number in numbers if number == number and abs(number) != float("inf")]
    if not finite:
        return len(numbers), nans, infinite, None, []
    low, high = min(finite), max(finite)
    bins = [0] * BINS
    for number in finite:
        bins[min(int((number - low) / (high - low) * BINS), BINS - 1) if high > low else 0] += 1
    return len(numbers), nans, infinite, (low, sum(finite) / len(finite), high), bins


def _torch(tensor: Any) -> Summary:
    """Reduced where it lies; only these few numbers come over."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        tensor = tensor.detach().coalesce().values() if tensor.is_sparse else tensor.detach()
        flat = (tensor.abs() if tensor.is_complex() else tensor).reshape(-1)
        flat = flat.float() if not flat.is_floating_point() or flat.element_size() < 4 else flat
        nans, infinite = int(flat.isnan().sum()), int(flat.isinf().sum())
        finite = flat[flat.isfinite()]
        if not finite.numel():
            return flat.numel(), nans, infinite, None, []
        low, mean, high = (float(part) for part in (finite.min(), finite.double().mean(), finite.max()))
        bins = torch.histc(finite, bins=BINS, min=low, max=high).int().tolist() if high > low else [finite.numel()]
        return flat.numel(), nans, infinite, (low, mean, high), bins


def _summary(count: int, nans: int, infinite: int, numbers: Any, bins: list[int]) -> str:
    bad = f"  NaN {nans}  Inf {infinite}" if nans or infinite else "  no NaN, no Inf"
    if not count:
        return "no numbers"
    if numbers is None:
        return f"{count} numbers, none of them finite{bad}"
    low, mean, high = numbers
    highest = max(bins)
    bars = "".join(BARS[-(-part * (len(BARS) - 1) // highest)] for part in bins)
    return f"min {low:.6g}  mean {mean:.6g}  max {high:.6g}{bad}\n{low:.4g} |{bars}| {high:.4g}"


def decode(ids: Any, names: Any) -> str:
    """Token ids as text, by the tokenizer that is at hand: a name here, an attribute of self, or one in memory."""
    tokenizer = find_tokenizer(names)
    if tokenizer is None:
        raise LookupError("no tokenizer is in sight here; p TOKENIZER.decode(ids) with yours")
    numbers = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if numbers and isinstance(numbers[0], list):
        return "\n".join(repr(str(tokenizer.decode(row))) for row in numbers)
    return repr(str(tokenizer.decode(numbers)))


def find_tokenizer(names: Any) -> Any:
    """What can decode: ``tokenizer`` here or in self, else something of this kind among the names, else in memory."""
    places = [dict(names), getattr(names.get("self"), "__dict__", {})]
    for place in places:
        for name in ("tokenizer", "_tokenizer", "processing_class", "processor"):
            if hasattr(place.get(name), "decode"):
                return place[name]
    for place in places:
        for value in place.values():
            if hasattr(value, "decode") and hasattr(value, "convert_ids_to_tokens"):
                return value
    base = getattr(sys.modules.get("transformers.tokenization_utils_base"), "PreTrainedTokenizerBase", None)
    if base is not None:
        import gc

        return next((thing for thing in gc.get_objects() if isinstance(thing, base)), None)
    return None
