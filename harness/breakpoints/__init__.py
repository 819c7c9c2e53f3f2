"""Breakpoints in every process of the system: who is paused, attach, debug in a terminal, log points."""
