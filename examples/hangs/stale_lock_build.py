"""A build of an extension was killed and left its lock; every later start waits for that lock.

---
ranks: 2
needs: [torch]
state: hung
accept: [stale-lock]
laggards: []
quick: true
"""

import os

from torch.utils.file_baton import FileBaton


def build_extension(folder):
    baton = FileBaton(os.path.join(folder, "lock"))
    if baton.try_acquire():
        baton.release()
    else:
        baton.wait()


with open(os.path.join(os.environ["HANG_FOLDER"], "lock"), "w"):
    pass  # what a killed build leaves
print("ready", flush=True)
build_extension(os.environ["HANG_FOLDER"])
