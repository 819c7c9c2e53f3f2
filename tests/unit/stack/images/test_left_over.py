"""Folders of a build that was killed are removed by the next one; those of a build that runs are not."""

from __future__ import annotations

import os
from pathlib import Path

from harness.stack.images.build import _remove_left_over

NOBODY = 2**22 + 1  # above the largest process number there can be


def test_only_folders_of_processes_that_are_no_more_go(tmp_path: Path) -> None:
    for name in (f"context-{NOBODY}-a", f"context-{os.getpid()}-b", "context-other", f"else-{NOBODY}-c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_text("x")
    _remove_left_over(tmp_path, "context-")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"context-{os.getpid()}-b", "context-other", f"else-{NOBODY}-c"]
    )
