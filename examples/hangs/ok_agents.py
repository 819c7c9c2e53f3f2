"""Agents ask a server again and again, and it answers after a while.

---
processes: [server, rollout]
state: slow
accept: [none]
"""

import asyncio
import os
import sys

PORT = int(os.environ["HANG_PORT"])


async def handle(reader, writer):
    while await reader.readline():
        await asyncio.sleep(0.2)
        writer.write(b"a token\n")


async def serve():
    server = await asyncio.start_server(handle, "127.0.0.1", PORT)
    print("ready", flush=True)
    await server.serve_forever()


async def agent():
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    while True:
        writer.write(b"prompt\n")
        await reader.readline()


async def rollout():
    asyncio.get_running_loop().call_later(0.5, lambda: print("ready", flush=True))
    await asyncio.gather(*(agent() for _ in range(8)))


asyncio.run(serve() if sys.argv[1] == "server" else rollout())
