"""What Buildx prints is read whole, however it is cut into pieces."""

from __future__ import annotations

import base64
import json

from harness.stack.images.solve_log import SolveLog


def documents() -> str:
    text = base64.b64encode(b"Collecting ray\nDown\r50%\r100% done\n").decode()
    stream = [
        {"vertexes": [{"digest": "a", "name": "[2/3] RUN pip install ray"}]},
        {"vertexes": [{"digest": "a", "name": "[2/3] RUN pip install ray", "started": "2026-01-01T00:00:00.5Z"}]},
        {"logs": [{"vertex": "a", "data": text}]},
        {"vertexes": [{"digest": "b", "name": "[1/3] FROM x", "started": "t", "completed": "t", "cached": True}]},
        {"vertexes": [{"digest": "a", "name": "[2/3] RUN pip install ray", "completed": "u", "error": "exit code: 1"}]},
    ]
    return "\n".join(json.dumps(document, indent=2) for document in stream) + "\nERROR: failed to solve: exit code: 1\n"


def test_steps_output_and_errors_are_found_in_any_cutting() -> None:
    whole = SolveLog()
    whole.feed(documents())
    for size in (1, 7, 64):
        cut = SolveLog()
        text = documents()
        for start in range(0, len(text), size):
            cut.feed(text[start : start + size])
        assert cut.lines == whole.lines
    assert whole.lines == [
        "[2/3] RUN pip install ray",
        "Collecting ray",
        "100% done",
        "[1/3] FROM x",
        "[1/3] FROM x: cached",
        "ERROR: [2/3] RUN pip install ray: exit code: 1",
        "ERROR: failed to solve: exit code: 1",
    ]
    failed = whole.failed()
    assert failed is not None
    assert failed.digest == "a"


def test_the_current_step_is_shown_with_its_last_line() -> None:
    log = SolveLog()
    text = base64.b64encode(b"Collecting ray\n").decode()
    log.feed(json.dumps({"vertexes": [{"digest": "a", "name": "[2/3] RUN x", "started": "t"}]}))
    log.feed(json.dumps({"logs": [{"vertex": "a", "data": text}]}))
    assert log.current == "step 2/3: Collecting ray"


def test_a_last_line_without_its_end_is_kept() -> None:
    log = SolveLog()
    log.feed("ERROR: no builder")
    assert log.lines == []
    assert log.finish() == ["ERROR: no builder"]
