"""A service and its engine wait for their first request.

---
processes: [server]
state: idle
accept: [none]
quick: true
"""

import asyncio
import multiprocessing
import os


def engine(requests, answers):
    while True:
        answers.put(requests.get())


async def serve(requests, answers):
    async def handle(reader, writer):
        requests.put(await reader.readline())
        writer.write(await asyncio.to_thread(answers.get))
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", int(os.environ["HANG_PORT"]))
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    requests, answers = context.Queue(), context.Queue()
    context.Process(target=engine, args=(requests, answers), daemon=True).start()
    asyncio.run(serve(requests, answers))
