"""An agent sleeps five minutes between two looks at a batch job, as its service's rules want; a heartbeat goes on.

---
state: idle
accept: [none]
"""

import asyncio


async def heartbeat():
    while True:
        await asyncio.sleep(0.5)


async def job_is_done(number):
    return False


async def main():
    task = asyncio.create_task(heartbeat())
    print("ready", flush=True)
    for number in range(1000):
        if await job_is_done(number):
            break
        await asyncio.sleep(300)
    task.cancel()


asyncio.run(main())
