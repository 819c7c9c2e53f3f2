"""The door: one thin file a verb."""
