"""Rollouts run on an event loop in a thread and hand in groups with a blocking put; the queue is full.

Before an update of the weights the trainer asks the loop to pause, and waits for that with nobody emptying the queue.
The put holds up the loop, so it never gets to hear of the pause. As in THUDM/slime#2238.

---
state: hung
accept: [async-lost, rpc-queue]
tie: [server-blocked]
laggards: [driver]
"""

import asyncio
import queue
import threading
import time


class RolloutWorker:
    def __init__(self, size):
        self.output, self.paused = queue.Queue(maxsize=size), False
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._work, name="rollout-worker", daemon=True).start()

    def _work(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._generate_forever())

    async def _generate_forever(self):
        while True:
            if not self.paused:
                group = await asyncio.gather(*(self._episode(number) for number in range(4)))
                self.output.put(group)
            await asyncio.sleep(0.001)

    async def _episode(self, number):
        await asyncio.sleep(0.002)
        return {"number": number, "reward": 1.0}

    async def _pause(self):
        self.paused = True

    def pause(self):
        return asyncio.run_coroutine_threadsafe(self._pause(), self.loop).result()


def train(worker):
    batch = [worker.output.get() for _ in range(2)]
    time.sleep(1)  # a step on the last two groups
    print("ready", flush=True)
    worker.pause()
    return batch


if __name__ == "__main__":
    train(RolloutWorker(8))
