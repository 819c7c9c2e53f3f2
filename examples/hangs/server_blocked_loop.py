"""A handler of an asyncio server calls something that blocks, so the server answers nobody.

---
processes: [server, trainer]
state: hung
accept: [server-blocked]
tie: [straggler]
laggards: [server]
quick: true
"""

import asyncio
import os
import subprocess
import sys
import urllib.request

PORT = int(os.environ["HANG_PORT"])


async def handle(reader, writer):
    await reader.readline()
    subprocess.run(["sleep", "1000000"], check=True)  # "just a quick call"
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    writer.close()


async def serve():
    server = await asyncio.start_server(handle, "127.0.0.1", PORT)
    print("ready", flush=True)
    await server.serve_forever()


def generate():
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/generate") as answer:
        return answer.read()


if sys.argv[1] == "server":
    asyncio.run(serve())
else:
    print("ready", flush=True)
    generate()
