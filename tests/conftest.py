"""For all tests."""

from __future__ import annotations

import signal

# A run that was started in the background of a script ignores Ctrl-C, and so would every process that it starts: then
# tests of what a Ctrl-C does would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The same of a hang-up under nohup, which our verbs leave ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
