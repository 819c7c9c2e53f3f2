"""A semaphore's place isn't given back when an episode fails, until none is left.

---
state: hung
accept: [async-lost]
tie: [exception-swallowed, staleness]
laggards: [driver]
"""

import asyncio

places = asyncio.Semaphore(4)


async def episode(number):
    await places.acquire()
    if number % 3 == 0:
        raise ValueError("no answer in the text")
    await asyncio.sleep(0.01)
    places.release()
    return 1.0


async def main():
    asyncio.get_running_loop().call_later(0.5, lambda: print("ready", flush=True))
    rewards = await asyncio.gather(*(episode(number) for number in range(32)), return_exceptions=True)
    print(len(rewards))


asyncio.run(main())
