"""A verb's first line doesn't wait for what only its last ones need."""

from __future__ import annotations

import subprocess
import sys

# What reads and decides is imported while samples are taken, what makes the page after the verdict was shown.
PROGRAM = """
import sys
import harness.cli.main, harness.cli.hang_dump, harness.cli.ways
early = {name for name in sys.modules if name.startswith("harness.hang.")}
assert early <= {"harness.hang.ask", "harness.hang.ways", "harness.hang.ways.here", "harness.hang.local_values"}, early
harness.cli.hang_dump._load_the_rest([])
import harness.hang.collect, harness.hang.decide, harness.hang.show, harness.printable
late = {"jinja2", "harness.hang.page", "harness.hang.keep"} & set(sys.modules)
assert not late, late
"""


def test_a_hang_dump_imports_no_page_before_its_verdict() -> None:
    # Not `import harness.cli.hang_dump`: the package's attribute of that name may be anything by then.
    program = PROGRAM.replace("harness.cli.hang_dump._load", "sys.modules['harness.cli.hang_dump']._load")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
