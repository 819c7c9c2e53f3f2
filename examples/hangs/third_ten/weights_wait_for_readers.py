"""A rollout holds a permit while it waits for newer weights, and the updater waits for all permits.

---
state: hung
accept: [async-lost, staleness]
laggards: [driver]
"""

import asyncio


class Weights:
    def __init__(self):
        self.version = 0
        self.readers = asyncio.Semaphore(4)
        self.changed = asyncio.Condition()


async def rollout(weights, i):
    while True:
        async with weights.readers:
            if i == 2 and weights.version == 3:
                print("ready", flush=True)
                async with weights.changed:
                    await weights.changed.wait_for(lambda: weights.version > 3)
            await asyncio.sleep(0.05)


async def updater(weights):
    while True:
        await asyncio.sleep(0.3)
        for _ in range(4):
            await weights.readers.acquire()
        async with weights.changed:
            weights.version += 1
            weights.changed.notify_all()
        for _ in range(4):
            weights.readers.release()


async def main():
    weights = Weights()
    await asyncio.gather(updater(weights), *(rollout(weights, i) for i in range(4)))


asyncio.run(main())
