"""Drydock's harness: serve, check, break, hang-dump and compare for reinforcement learning on language models."""

__version__ = "0.1.0"
