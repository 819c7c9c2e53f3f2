"""Several machines on one Ray: ports, the meeting of a node with its head, and nodes on other machines.

``ports``, ``meeting``, ``serve`` and ``join`` also run in the image, by the standard library alone.
"""
