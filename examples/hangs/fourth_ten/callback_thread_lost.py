"""The trainer waits for a condition that the loader's thread should have notified; that thread has died of an error.

Its traceback is in the log; a daemon thread that ends takes nobody with it.

---
state: hung
accept: [exception-swallowed]
tie: [async-lost]
laggards: [driver]
"""

import threading

ready, batches = threading.Condition(), []


def load():
    for number in range(3):
        with ready:
            batches.append(number)
            ready.notify()
    raise ValueError("line 4 of the data has no prompt")


def next_batch():
    with ready:
        while not batches:
            ready.wait()
        return batches.pop()


print("ready", flush=True)
threading.Thread(target=load, name="loader", daemon=True).start()
for step in range(10):
    print("step", step, next_batch(), flush=True)
