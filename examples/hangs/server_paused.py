"""Generation was paused for an update of the weights and never resumed; requests wait in the server.

---
processes: [server, rollout]
state: hung
accept: [server-blocked]
tie: [async-lost]
laggards: [server]
"""

import asyncio
import os
import sys
import urllib.request

PORT = int(os.environ["HANG_PORT"])


class Engine:
    def __init__(self):
        self.may_generate = asyncio.Event()
        self.may_generate.set()

    async def update_weights(self):
        self.may_generate.clear()
        raise RuntimeError("shape of lm_head doesn't fit")

    async def generate(self):
        await self.may_generate.wait()
        return b"text"


async def serve():
    engine = Engine()

    async def handle(reader, writer):
        await reader.readline()
        text = await engine.generate()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + text)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", PORT)
    try:
        await engine.update_weights()
    except RuntimeError as error:
        print("update failed:", error, flush=True)
    print("ready", flush=True)
    await server.serve_forever()


def roll_out():
    print("ready", flush=True)
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/generate") as answer:
        return answer.read()


asyncio.run(serve()) if sys.argv[1] == "server" else roll_out()
