"""What Drydock knows of Ray clusters, also of those that it didn't start.

``address``   which cluster is meant, and the token for it
``state``     nodes, actors, tasks, workers as the dashboard's state API tells them; needs no Ray here
``driver``    a program of its own that joins a cluster and runs one task pinned to each node
``session``   starts that program, talks to it, and never leaves it behind
"""

from harness.ray_cluster.address import RayUnreachable, checked_address, token
from harness.ray_cluster.session import Node, Session
from harness.ray_cluster.state import Dashboard

__all__ = ["Dashboard", "Node", "RayUnreachable", "Session", "checked_address", "token"]
