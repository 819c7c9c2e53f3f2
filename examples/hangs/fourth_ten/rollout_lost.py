"""A rollout waits for an answer whose future nobody will ever complete; beside it a heartbeat goes on.

The reply came under another id and was thrown away.

---
state: hung
accept: [async-lost]
laggards: [driver]
"""

import asyncio


class Client:
    def __init__(self):
        self.waiting = {}

    async def ask(self, number):
        self.waiting[number] = asyncio.get_running_loop().create_future()
        return await self.waiting[number]

    def received(self, number, text):
        future = self.waiting.pop(number, None)
        if future is not None:
            future.set_result(text)


async def heartbeat():
    while True:
        await asyncio.sleep(0.5)


async def main():
    client = Client()
    beat = asyncio.create_task(heartbeat())
    asyncio.get_running_loop().call_later(0.2, client.received, "1", "an answer")
    print("ready", flush=True)
    await client.ask(1)
    beat.cancel()


asyncio.run(main())
