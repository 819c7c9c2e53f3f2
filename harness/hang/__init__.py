"""Who hangs, who is the laggard, why, and what next.

Three things are kept apart: ``readers`` turn files into plain data, everything beside them decides and touches neither
files nor processes, ``show`` puts the decided verdict into words.
"""
