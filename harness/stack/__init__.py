"""Serve: the containers that a person works with; brought up, looked at, healed, taken down."""
