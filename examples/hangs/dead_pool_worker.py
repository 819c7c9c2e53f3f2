"""A worker of a process pool is killed in mid-task, and its task is lost for ever.

`multiprocessing.Pool` starts another worker, but nobody does the task again, and nobody is told.

---
state: hung
accept: [dead-peer]
tie: [data-worker, async-lost]
laggards: []
"""

import multiprocessing
import os
import signal


def score(answer):
    if answer == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return float(answer)


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        rewards = pool.map_async(score, range(8), chunksize=1)
        print("ready", flush=True)
        print(sum(rewards.get()))
