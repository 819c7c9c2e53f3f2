"""The door of Drydock's inference container: one process that starts an engine and guards what reaches it.

``python -m gateway`` reads its settings from the environment (config.py), starts the engine as a child that listens on
the container's loopback (engine_process.py), and serves the engine's whole API on one port with four additions:

- auth.py      every request needs the key
- names.py     a model answers to all its names in any letter case, and only to those
- refusals.py  what the engine would silently ignore is refused with a sentence
- health.py    healthy means "tokens are coming", not "a process exists"

It lives in a virtual environment of its own, so that it can be laid over images whose Python belongs to the engine.
"""
