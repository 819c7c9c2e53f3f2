"""``make report``: what a stranger needs to help, in one file without secrets.

* ``sources``   gathers: doctor, fingerprint, settings, logs, the last runs; each with a time limit
* ``run_files`` gathers: files of runs, whose folders agents can write to, so no link is followed
* ``choosing``  decides which of them go in; pure
* ``cleaning``  takes secrets and local variables out; pure
* ``packing``   writes the archive, whole or not at all, and over nothing
"""
