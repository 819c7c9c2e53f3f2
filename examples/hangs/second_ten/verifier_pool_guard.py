"""The guard of a pool of verifiers kills one that holds the lock of the task queue.

A guard replaces workers whose last sign of life is old, since a verifier may hang in sympy. A worker that merely waits
for a task gives none either, and whoever waits in `Queue.get` holds the queue's lock: it dies with it, and the
replacements can never take a task.
https://github.com/ShannonAI/service-streamer/issues/94, https://github.com/MasterVito/SvS/issues/3

---
state: hung
accept: [stale-lock, dead-peer]
tie: [rpc-queue]
laggards: [driver/child]
"""

import multiprocessing as mp
import threading
import time
from fractions import Fraction

CONTEXT = mp.get_context("fork")
HEARTBEAT_TIMEOUT = 5.0


def parse(answer):
    return Fraction(answer.strip().rstrip(".").replace(" ", ""))


def verify(task):
    uid, gold, answer = task
    time.sleep(0.1)
    try:
        return uid, float(parse(gold) == parse(answer))
    except (ValueError, ZeroDivisionError):
        return uid, 0.0


def verifier_loop(tasks, results, heartbeat):
    while True:
        task = tasks.get()
        heartbeat.value = time.time()
        results.put(verify(task))
        heartbeat.value = time.time()


class VerifierPool:
    def __init__(self, size=2):
        self.tasks = CONTEXT.Queue()
        self.results = CONTEXT.SimpleQueue()
        self.workers = [self.start_worker() for _ in range(size)]
        self.restarts = 0
        threading.Thread(target=self.guard_loop, name="verifier-guard", daemon=True).start()

    def start_worker(self):
        heartbeat = CONTEXT.Value("d", time.time(), lock=False)
        worker = CONTEXT.Process(target=verifier_loop, args=(self.tasks, self.results, heartbeat), daemon=True)
        worker.heartbeat = heartbeat
        worker.start()
        return worker

    def guard_loop(self):
        while True:
            time.sleep(0.5)
            stale = [w for w in self.workers if time.time() - w.heartbeat.value > HEARTBEAT_TIMEOUT]
            if stale and self.restarts < 2:
                self.replace(stale)

    def replace(self, stale):
        for worker in stale:
            worker.kill()
            worker.join()
            self.workers[self.workers.index(worker)] = self.start_worker()
            self.restarts += 1
        print(f"verifier guard: replaced {len(stale)} worker(s)", flush=True)

    def score(self, batch):
        for task in batch:
            self.tasks.put(task)
        scores = {}
        while len(scores) < len(batch):
            uid, score = self.results.get()
            scores[uid] = score
        return [scores[uid] for uid, _, _ in batch]


class RewardManager:
    def __init__(self):
        self.pool = VerifierPool()

    def __call__(self, responses):
        batch = [(uid, "3/4", answer) for uid, answer in enumerate(responses)]
        return self.pool.score(batch)


class PPOTrainer:
    def __init__(self):
        self.reward_fn = RewardManager()

    def generate_sequences(self, step):
        time.sleep(0.5 if step < 3 else 9.0)  # the responses got longer
        return ["0.75", "3/4.", "6 / 8", "2/3"]

    def fit(self):
        for step in range(100):
            responses = self.generate_sequences(step)
            if step == 3:
                print("ready", flush=True)
            rewards = self.reward_fn(responses)
            print(f"step {step} critic/score/mean {sum(rewards) / len(rewards):.2f}", flush=True)


if __name__ == "__main__":
    PPOTrainer().fit()
