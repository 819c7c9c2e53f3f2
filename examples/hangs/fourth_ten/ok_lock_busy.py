"""The writer holds the buffer's lock while it packs a large batch, and the trainer waits for its turn.

Nothing hangs: it lasts some seconds, and then the next one comes.

---
state: slow
accept: [none, straggler, python-loop, user-code, data-worker]
"""

import threading
import zlib

buffer = threading.Lock()
rows = [f"token {number} of a long answer" for number in range(300_000)]


def pack():
    size = 0
    for start in range(0, len(rows), 100):
        size += len(zlib.compress("\n".join(rows[start : start + 4000]).encode(), 9))
    return size


def writer():
    while True:
        with buffer:
            pack()


threading.Thread(target=writer, name="writer", daemon=True).start()
print("ready", flush=True)
while True:
    with buffer:
        rows.append("one more")
