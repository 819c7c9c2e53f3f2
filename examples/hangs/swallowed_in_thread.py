"""The thread that makes samples has died of an exception; the trainer waits for samples.

---
state: hung
accept: [exception-swallowed]
tie: [async-lost, rpc-queue]
laggards: [driver]
"""

import queue
import threading
import time

samples = queue.Queue()


def roll_out():
    for number in range(5):
        samples.put(1 / (3 - number))


def train():
    for _ in range(5):
        samples.get()


worker = threading.Thread(target=roll_out, name="rollout")
worker.start()
while worker.is_alive():
    time.sleep(0.01)
print("ready", flush=True)
train()
