"""The lint: what will bite in training, found in an agent's source without running any of it.

``rule``       what a rule is, and how what it finds becomes a finding
``program``    the agent's file and what it imports from the user's own folders, parsed
``names``      what a name in a file stands for; which functions run on the event loop
``reading``    small questions about syntax that several rules ask
``*_rules``    the rules
``catalogue``  all of them, in order
``run``        one call of ``harness lint``

A rule says nothing where it can't decide: a false alarm costs more than a miss. It is one entry with a code that never
changes its meaning; a line with ``# drydock: ignore[code]`` is passed over.
"""
