"""The end of a build's log becomes an error that names the cause."""

from __future__ import annotations

import pytest

from harness.errors import (
    BadSetting,
    BuildFailed,
    DownloadMismatch,
    DrydockError,
    EngineNetworkGone,
    FrameworkRefused,
    NoSpace,
    PackagesUnreachable,
    RequirementsConflict,
)
from harness.stack.images.failures import explain

MALFORMED = """\
ERROR: Invalid requirement: 'numpy=>1': Expected end or semicolon (after name and no valid version specifier)
    numpy=>1
         ^ (from line 3 of /requirements/sub/list.txt)
"""
MALFORMED_OLD = "ERROR: Invalid requirement: 'foo bar' (from line 2 of requirements.txt)"
CONFLICT = """\
ERROR: Cannot install ray==2.55.0 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested ray==2.55.0
    The user requested (constraint) ray==2.60.0

To fix this you could try to:"""


@pytest.mark.parametrize(
    ("kind", "log", "error", "words"),
    [
        ("node", "DRYDOCK-REFUSED: FRAMEWORK's image has Ray 2.40.", FrameworkRefused, "has Ray 2.40"),
        ("user", CONFLICT, RequirementsConflict, "it asks for ray==2.55.0; this image keeps to ray==2.60.0"),
        ("dev", "OSError: [Errno 28] No space left on device", NoSpace, "full"),
        ("vllm", "THESE PACKAGES DO NOT MATCH THE HASHES", DownloadMismatch, "not the file that the lock names"),
        ("dev", "SSLError: CERTIFICATE_VERIFY_FAILED", PackagesUnreachable, "certificate"),
        ("dev", "Temporary failure resolving 'mirror.lan'", PackagesUnreachable, "doesn't answer"),
        ("dev", "E: Failed to fetch http://x  Connection refused", PackagesUnreachable, "doesn't answer"),
        (
            "user",
            "ERROR: No matching distribution found for xyzzy==9 (from versions: none)",
            BuildFailed,
            "has xyzzy==9.",
        ),
        ("user", MALFORMED, BadSetting, "Line 3 of sub/list.txt is no requirement: 'numpy=>1': Expected"),
        ("user", MALFORMED_OLD, BadSetting, "Line 2 of requirements.txt is no requirement: 'foo bar'."),
        (
            "dev",
            "ERROR: adding interface veth0 to bridge docker0 failed: could not find bridge docker0: route ip+net",
            EngineNetworkGone,
            "the network docker0 of Docker Engine has gone",
        ),
        ("dev", "gcc: fatal error", BuildFailed, "could not be built"),
    ],
)
def test_each_cause_has_its_error(kind: str, log: str, error: type[DrydockError], words: str) -> None:
    found = explain(kind, log.splitlines(), "/logs/x.log")
    assert type(found) is error
    assert words in found.what
    assert found.mend


def test_the_last_lines_are_shown_without_the_names_of_steps() -> None:
    lines = ["[2/3] RUN x", *(f"line {number}" for number in range(50)), "ERROR: [2/3] RUN x: exit code: 1"]
    found = explain("dev", lines, "/logs/x.log")
    assert isinstance(found, BuildFailed)
    assert found.logs.splitlines() == [f"line {number}" for number in range(30, 50)]
