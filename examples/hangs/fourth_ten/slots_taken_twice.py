"""Four workers share four slots of the sandbox; each has one and asks for a second one for its sub-task.

---
state: hung
accept: [thread-deadlock]
laggards: [driver]
"""

import threading
from concurrent.futures import ThreadPoolExecutor

slots = threading.Semaphore(4)
started = threading.Barrier(4)


def run_tests(task):
    with slots:
        return task * 2


def solve(task):
    with slots:
        started.wait()
        return run_tests(task) + 1


with ThreadPoolExecutor(4) as pool:
    print("ready", flush=True)
    print(list(pool.map(solve, range(4))))
