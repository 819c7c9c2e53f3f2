"""The metrics' lock isn't reentrant, and the function that flushes takes it a second time.

`log` holds it, the buffer is full, `flush` wants it as well: the training loop waits for itself.

---
state: hung
accept: [thread-deadlock]
laggards: [driver]
"""

import threading


class Metrics:
    def __init__(self):
        self.lock = threading.Lock()
        self.rows = []

    def log(self, row):
        with self.lock:
            self.rows.append(row)
            if len(self.rows) >= 4:
                self.flush()

    def flush(self):
        with self.lock:
            rows, self.rows = self.rows, []
        print(len(rows), "rows", flush=True)


metrics = Metrics()
print("ready", flush=True)
for step in range(100):
    metrics.log({"step": step, "loss": 1 / (step + 1)})
