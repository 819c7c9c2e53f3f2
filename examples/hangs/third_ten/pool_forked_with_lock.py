"""Reward workers are forked while another thread of their parent has a lock, and wait for it for ever.

The parent's thread for metrics goes on taking and freeing its own copy of that lock.

---
computes: [driver]
state: hung
accept: [data-worker, user-code]
laggards: [driver/child]
"""

import multiprocessing as mp
import threading
import time

lock = threading.Lock()


def log(msg):
    with lock:
        time.sleep(0.02)


def metrics():
    while True:
        log("tick")


def score(x):
    log(f"scored {x}")
    return x % 7


def main():
    threading.Thread(target=metrics, daemon=True).start()
    time.sleep(0.3)
    context = mp.get_context("fork")
    # The lock is free for an instant only between two ticks, so nearly every pool is caught.
    while not lock.locked():
        pass
    with context.Pool(4) as pool:
        print("ready", flush=True)
        print("step", sum(pool.map(score, range(64), chunksize=4)), flush=True)


if __name__ == "__main__":
    main()
