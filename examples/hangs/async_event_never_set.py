"""Agents wait for a result that a task should bring; the task has failed, and nobody looked at it.

---
state: hung
accept: [async-lost]
tie: [exception-swallowed]
laggards: [driver]
quick: true
"""

import asyncio


async def collect(ready, results):
    results["reward"] = results["no such key"]
    ready.set()


async def agent(ready, results):
    await ready.wait()
    return results["reward"]


async def rollout():
    ready, results = asyncio.Event(), {}
    keep = [asyncio.create_task(collect(ready, results))]
    asyncio.get_running_loop().call_later(0.2, lambda: print("ready", flush=True))
    return await asyncio.gather(*(agent(ready, results) for _ in range(8))), keep


asyncio.run(rollout())
