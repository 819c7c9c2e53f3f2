"""Two threads take the weights' lock and the buffer's lock in opposite order, and each waits for what the other has.

The trainer publishes weights, the collector fills the buffer and looks at the version. A third thread writes a
heartbeat all the time.

---
state: hung
accept: [thread-deadlock]
laggards: [driver]
"""

import threading
import time

weights, buffer = threading.Lock(), threading.Lock()
both = threading.Barrier(2)


def publish():
    with weights:
        both.wait()
        with buffer:
            return "published"


def collect():
    with buffer:
        both.wait()
        with weights:
            return "collected"


def heartbeat():
    while True:
        time.sleep(0.5)


threading.Thread(target=heartbeat, name="heartbeat", daemon=True).start()
collector = threading.Thread(target=collect, name="collector", daemon=True)
collector.start()
print("ready", flush=True)
publish()
