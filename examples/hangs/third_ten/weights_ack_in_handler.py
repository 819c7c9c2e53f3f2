"""A handler of an asyncio server waits for the trainer's word with a blocking queue, and so holds up its event loop.

Its only client, a rollout loop, waits for answers; neither is known to be a server by its name.

---
processes: [server, client]
state: hung
accept: [server-blocked]
laggards: [server]
"""

import asyncio
import os
import queue
import sys

PORT = int(os.environ["HANG_PORT"])
acks = queue.Queue()
requests = 0


def apply_weights():
    acks.get()


async def handle(reader, writer):
    global requests
    while line := await reader.readline():
        requests += 1
        if requests == 40:
            print("ready", flush=True)
            apply_weights()
        await asyncio.sleep(0.01)
        writer.write(line)
        await writer.drain()


async def serve():
    server = await asyncio.start_server(handle, "127.0.0.1", PORT)
    await server.serve_forever()


async def rollout(i):
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    for turn in range(100):
        writer.write(b"%d %d\n" % (i, turn))
        await reader.readline()


async def roll_out():
    print("ready", flush=True)
    await asyncio.gather(*(rollout(i) for i in range(8)))


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1] == "server" else roll_out())
