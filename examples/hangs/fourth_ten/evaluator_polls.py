"""Rank 0 looks every two seconds for the evaluator's result, which is written by a process that computes.

Nothing hangs: the evaluator gets on, sample by sample; rank 1 waits in the barrier meanwhile.

---
processes: [evaluator]
ranks: 2
needs: [torch]
computes: [evaluator]
state: slow
accept: [none, straggler, user-code, rank-conditional, python-loop]
laggards: [rank0]
"""

import os
import random
import sys
import time

RESULT = os.path.join(os.environ["HANG_FOLDER"], "result.txt")


def evaluate():
    drawn = random.Random(1)
    print("ready", flush=True)
    for sample in range(100_000):
        words = [str(drawn.random()) for _ in range(20_000)]
        words.sort()
        if sample % 50 == 0:
            print("sample", sample, words[0], flush=True)
    with open(RESULT, "w") as file:
        file.write("0.5")


def main():
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.barrier()
    print("ready", flush=True)
    if dist.get_rank() == 0:
        while not os.path.exists(RESULT):
            time.sleep(2)
    dist.barrier()


if len(sys.argv) > 1:
    evaluate()
else:
    main()
