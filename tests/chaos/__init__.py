"""``make chaos``: faults in mid-flight, seeded and counted; ``docs/reliability.md`` has the figures."""
