"""A paused inference server waits to get the lock that the paused requests hold.

The trainer pauses generation so that requests keep their place, sends new weights, and means to go on afterwards.
Taking the weights needs the write lock; the paused requests hold the read lock and only give it back when they may go
on. The health check is answered all the time.
https://github.com/sgl-project/sglang/pull/22754, https://github.com/sgl-project/sglang/pull/29670

---
processes: [server, rollout, trainer]
state: hung
accept: [server-blocked]
tie: [async-lost]
laggards: [server]
"""

import asyncio
import contextlib
import http.client
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

PORT = int(os.environ.get("HANG_PORT", 30000))


# ---- tokenizer_manager.py / http_server.py -------------------------------------------------------------------------


class RWLock:
    def __init__(self):
        self._readers = 0
        self._writing = False
        self._cond = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def reader_lock(self):
        async with self._cond:
            await self._cond.wait_for(lambda: not self._writing)
            self._readers += 1
        try:
            yield
        finally:
            async with self._cond:
                self._readers -= 1
                self._cond.notify_all()

    @contextlib.asynccontextmanager
    async def writer_lock(self):
        async with self._cond:
            await self._cond.wait_for(lambda: not self._writing and self._readers == 0)
            self._writing = True
        try:
            yield
        finally:
            async with self._cond:
                self._writing = False
                self._cond.notify_all()


class TokenizerManager:
    def __init__(self):
        self.model_update_lock = RWLock()
        self.is_pause = False
        self.is_pause_cond = asyncio.Condition()
        self.weight_version = 0

    async def _wait_one_decode(self):
        async with self.is_pause_cond:
            await self.is_pause_cond.wait_for(lambda: not self.is_pause)
        await asyncio.sleep(0.05)

    async def generate_request(self, obj):
        async with self.model_update_lock.reader_lock():
            tokens = []
            while len(tokens) < obj["max_new_tokens"]:
                await self._wait_one_decode()
                tokens.append(len(tokens) % 97)
            return {"tokens": tokens, "weight_version": self.weight_version}

    async def pause_generation(self, obj):
        async with self.is_pause_cond:
            self.is_pause = True
        return {"status": "ok"}

    async def continue_generation(self, obj):
        async with self.is_pause_cond:
            self.is_pause = False
            self.is_pause_cond.notify_all()
        return {"status": "ok"}

    async def update_weights_from_tensor(self, obj):
        if self.is_pause:
            print("ready", flush=True)
        async with self.model_update_lock.writer_lock():
            await asyncio.sleep(0.1)
            self.weight_version = obj["version"]
            return {"success": True}

    async def health(self, obj):
        return {"status": "ok"}


class HttpServer:
    def __init__(self, manager):
        self.routes = {
            "/generate": manager.generate_request,
            "/pause_generation": manager.pause_generation,
            "/continue_generation": manager.continue_generation,
            "/update_weights_from_tensor": manager.update_weights_from_tensor,
            "/health": manager.health,
        }

    async def handle(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ", 2)[1]
            length = next(
                (int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length:")),
                0,
            )
            obj = json.loads(await reader.readexactly(length) or b"{}")
            answer = json.dumps(await self.routes[path](obj)).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(answer) + answer)
            await writer.drain()
        writer.close()

    async def serve(self):
        server = await asyncio.start_server(self.handle, "127.0.0.1", PORT)
        async with server:
            await server.serve_forever()


async def launch_server():
    await HttpServer(TokenizerManager()).serve()


# ---- the clients ---------------------------------------------------------------------------------------------------


def post(path, **payload):
    connection = http.client.HTTPConnection("127.0.0.1", PORT)
    connection.request("POST", path, json.dumps(payload), {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read())


def wait_server_healthy():
    while True:
        try:
            return post("/health")
        except OSError:
            time.sleep(0.2)


class RolloutManager:
    def __init__(self, batch=4):
        self.pool = ThreadPoolExecutor(batch, thread_name_prefix="sglang_rollout")
        self.batch = batch

    def generate_one(self, max_new_tokens):
        return len(post("/generate", max_new_tokens=max_new_tokens)["tokens"])

    def generate_rollout(self, rollout_id):
        lengths = [20, 30, 40, 50] if rollout_id < 2 else [400, 420, 440, 460]
        return list(self.pool.map(self.generate_one, lengths))

    def run(self):
        for rollout_id in range(1000):
            if rollout_id == 2:
                print("ready", flush=True)
            lengths = self.generate_rollout(rollout_id)
            print(f"rollout {rollout_id} response_length/mean {sum(lengths) / len(lengths):.1f}", flush=True)


class ActorTrainer:
    def __init__(self):
        self.version = 0

    def train_actor(self):
        time.sleep(1.0)

    def update_weights(self, pause=True):
        self.version += 1
        if pause:
            post("/pause_generation", mode="in_place")
            print("ready", flush=True)
        post("/update_weights_from_tensor", version=self.version)
        if pause:
            post("/continue_generation")

    def run(self):
        self.update_weights(pause=False)
        for step in range(1000):
            for _ in range(8):
                self.train_actor()
            self.update_weights()
            print(f"step {step} weight_version {self.version}", flush=True)


def main(role):
    if role == "server":
        asyncio.run(launch_server())
    wait_server_healthy()
    if role == "rollout":
        RolloutManager().run()
    else:
        ActorTrainer().run()


if __name__ == "__main__":
    main(sys.argv[1])
