"""Rollouts may be one version older than the weights; fewer prompts fit under that limit than a batch needs.

As in asynchronous RL: training waits for a whole batch, the rollouts wait for a newer version, which only
training makes.

---
state: hung
accept: [staleness]
tie: [async-lost]
laggards: []
"""

import asyncio


class StalenessManager:
    def __init__(self, max_head_offpolicyness, consumer_batch_size):
        self.most, self.size = max_head_offpolicyness, consumer_batch_size
        self.version, self.submitted = 0, 0

    def get_capacity(self):
        return (self.most + self.version + 1) * self.size - self.submitted


class RolloutController:
    def __init__(self):
        self.staleness = StalenessManager(max_head_offpolicyness=0, consumer_batch_size=6)
        self.results = asyncio.Queue()
        self.room = asyncio.Condition()

    async def wait_for_capacity(self):
        async with self.room:
            await self.room.wait_for(lambda: self.staleness.get_capacity() > 0)
            self.staleness.submitted += 1

    async def run_episodes(self):
        while True:
            await self.wait_for_capacity()
            await self.results.put(1.0)

    async def wait_for_batch(self, size):
        return [await self.results.get() for _ in range(size)]


async def train():
    controller = RolloutController()
    episodes = asyncio.create_task(controller.run_episodes())
    asyncio.get_running_loop().call_later(0.2, lambda: print("ready", flush=True))
    await controller.wait_for_batch(8)
    episodes.cancel()


asyncio.run(train())
