"""Rank 1's reward service is restarting; it tries again after half a minute, and rank 0 waits in the all-reduce.

Nothing hangs: the second try will find the service. A back-off is a sleep in the program's own code.

---
ranks: 2
needs: [torch]
state: slow
accept: [straggler, none, user-code]
laggards: [rank1]
"""

import time
import urllib.error
import urllib.request

import torch
import torch.distributed as dist


def reward(text):
    for attempt in range(1000):
        try:
            urllib.request.urlopen("http://127.0.0.1:9/score", text.encode(), timeout=5)
        except urllib.error.URLError as error:
            print("attempt", attempt, error, flush=True)
            time.sleep(30 * 2 ** min(attempt, 3))
    return 0.0


dist.init_process_group("gloo")
dist.barrier()
print("ready", flush=True)
value = torch.tensor(reward("an answer") if dist.get_rank() == 1 else 1.0)
dist.all_reduce(value)
