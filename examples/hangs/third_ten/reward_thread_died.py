"""A thread that scores samples dies of the fifth one, and whoever submits them waits at the full queue for ever.

---
state: hung
accept: [exception-swallowed, async-lost]
laggards: [driver]
"""

import queue
import threading

samples = queue.Queue(2)


def reward_worker():
    for _ in range(5):
        samples.get()
    raise ValueError("bad sample")


threading.Thread(target=reward_worker, daemon=True).start()
i = 0
while True:
    if i == 7:
        print("ready", flush=True)
    samples.put(i)
    i += 1
    print("submitted", i, flush=True)
