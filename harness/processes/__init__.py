"""Processes of this machine or container: find them, start one, follow it and all it starts to their ends.

* ``stat``       what /proc tells about one process
* ``tree``       all processes, and who descends from whom
* ``exits``      how a process ended, and from where that can be known
* ``births``     noticing new processes without any privilege
* ``watch``      every descendant from birth to end
* ``tee``        a command's output to the terminal and to files
* ``supervise``  starts a command, passes signals on, leaves no orphan
* ``detach``     the same without a caller, in the background
* ``record``     what is kept about a run, as it lies in ``result.json``
* ``ledger``     the list of a run's processes, which may be millions
* ``findings``   what a record tells beyond the exit code
* ``memory``     kills for lack of memory
* ``running``    reading a run's folder while it runs, after its end, or after its supervisor was killed
* ``redact``     secrets out of command lines

Only Linux: everything here rests on /proc.
"""
