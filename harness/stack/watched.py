"""A verb that runs agents in ``dev`` may be ended or stopped by them: both run as the same user. Then it is told here.

On this machine stands what the agent can't reach. A stopped process says nothing by itself, so the engine is asked for
its state now and then; one that stays stopped is ended, and takes its agent along (harness/agent/child.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from harness.docker_engine import Container
from harness.errors import CheckEnded

# Two looks in a row have to find it stopped: whoever samples stacks stops it for a moment.
LOOK_SECONDS = 10.0
LOOKS = 2
_KILLED = 128 + 9


class Watch:
    """Asks the engine how a command in a container is.

    Attributes:
        stopped: it stayed stopped, and was ended.
    """

    def __init__(self, state: Callable[[], str], end: Callable[[], None]) -> None:
        self._state, self._end = state, end
        self._over = threading.Event()
        self.stopped = False

    @contextmanager
    def while_it_runs(self) -> Iterator[None]:
        """Look until the block is left."""
        thread = threading.Thread(target=self._look, name="is the check stopped", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(LOOK_SECONDS)

    def _look(self) -> None:
        stopped = 0
        while not self._over.wait(LOOK_SECONDS):
            stopped = stopped + 1 if self._state()[:1] in ("T", "t") else 0
            if stopped >= LOOKS:
                self.stopped = True
                self._end()
                return


def state_of(client: Any, container: Container, command: str) -> str:
    """State of the process with that command line, as ``ps`` writes it; "" where there is none, or no answer."""
    try:
        rows = client.api.top(container.id, ps_args="-eo pid,stat,args")["Processes"]
    except Exception:  # noqa: BLE001  # the container may be going; then its command ends by itself
        return ""
    return next((str(row[1]) for row in rows or () if str(row[2]).endswith(command)), "")


def explain(code: int, watch: Watch) -> None:
    """Nothing, where the command ended by itself.

    Raises:
        CheckEnded: somebody ended or stopped it.
    """
    if watch.stopped:
        raise CheckEnded("The check was stopped from outside (by a signal or a debugger), and so it was ended.")
    if code == _KILLED:
        raise CheckEnded("The check was killed (SIGKILL).")
