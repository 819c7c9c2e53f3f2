"""Results: one folder a run, never half-written, without any secret.

``folder``  makes ``runs/<time>-<verb>/``, writes into it, keeps ``latest``, lists what is there
``redact``  takes secrets out of everything that is written
``index``   the list of all runs, also as a page
``html``    parts of self-contained HTML pages
``junit``   findings as JUnit XML, for CI systems
"""

from harness.runs.folder import RunFolder, listed, shown
from harness.runs.redact import Redactor

__all__ = ["Redactor", "RunFolder", "listed", "shown"]
