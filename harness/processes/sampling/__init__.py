"""Samples the processes of this PID namespace: who they are, where each thread stands, and whether they get on.

``model``   what is asked and what is answered, as it travels between machines
``roles``   what a command line and an environment tell of a process; pure
``facts``   what /proc tells of one process
``find``    which processes are meant
``turns``   which threads ran meanwhile
``dumper``  the stacks of one process
``take``    all of it, twice
"""

from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest
from harness.processes.sampling.take import take

__all__ = ["NodeAnswer", "ProcessEntry", "SampleEntry", "SampleRequest", "take"]
