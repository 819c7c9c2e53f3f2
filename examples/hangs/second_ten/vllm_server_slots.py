"""All concurrency slots of an inference actor are taken by requests that wait to be resumed.

Generation is paused for a weight update. The agents go on sending, and their requests wait inside the actor until it
resumes; when they have filled its slots, the update and the resume are queued behind them.
https://github.com/verl-project/verl/pull/7587

---
needs: [ray]
state: hung
accept: [ray-wait]
tie: [server-blocked, async-lost]
laggards: [vLLMHttpServer]
"""

import asyncio
import os
import time

import ray


@ray.remote(num_cpus=0.5, max_concurrency=8)
class vLLMHttpServer:
    def __init__(self, max_num_seqs=4):
        self.resumed = asyncio.Event()
        self.resumed.set()
        self.running = asyncio.Semaphore(max_num_seqs)
        self.weight_version = 0

    async def _decode(self, tokens):
        for _ in range(tokens):
            await self.resumed.wait()
            await asyncio.sleep(0.05)

    async def generate(self, prompt, max_tokens):
        async with self.running:
            await self._decode(max_tokens)
        return {"prompt": prompt, "tokens": max_tokens, "weight_version": self.weight_version}

    async def pause_generation(self):
        self.resumed.clear()

    async def update_weights(self, version):
        await asyncio.sleep(0.1)
        self.weight_version = version

    async def resume_generation(self):
        self.resumed.set()


@ray.remote(num_cpus=0.5)
class AgentLoopWorker:
    def __init__(self, server):
        self.server = server

    async def run_agent_loop(self, index, turns):
        tokens = 0
        for turn in range(turns):
            out = await self.server.generate.remote(f"{index}/{turn}", 20)
            tokens += out["tokens"]
            await asyncio.sleep(0.2)  # the tool
        return tokens

    async def generate_sequences(self, size, turns, stagger):
        async def later(index):
            await asyncio.sleep(stagger * index)
            return await self.run_agent_loop(index, turns)

        return sum(await asyncio.gather(*(later(i) for i in range(size))))


class FullyAsyncTrainer:
    def __init__(self):
        self.server = vLLMHttpServer.remote()
        self.agents = AgentLoopWorker.remote(self.server)
        self.version = 0

    def update_actor(self, seconds):
        time.sleep(seconds)

    def sync_rollout_weights(self):
        self.version += 1
        ray.get(self.server.update_weights.remote(self.version))
        ray.get(self.server.resume_generation.remote())

    def fit_step(self, step, size, turns, stagger):
        rollout = self.agents.generate_sequences.remote(size, turns, stagger)
        self.update_actor(1.0)
        ray.get(self.server.pause_generation.remote())
        self.update_actor(6.0 if step == 1 else 0.5)  # the last mini-batches
        if step == 1:
            print("ready", flush=True)
        self.sync_rollout_weights()
        tokens = ray.get(rollout)
        print(f"step {step} tokens {tokens} weight_version {self.version}", flush=True)

    def fit(self):
        self.fit_step(0, size=3, turns=2, stagger=0.1)
        self.fit_step(1, size=12, turns=3, stagger=0.25)


def main():
    ray.init(num_cpus=2, include_dashboard=False, _temp_dir=os.environ.get("HANG_FOLDER"))
    FullyAsyncTrainer().fit()


if __name__ == "__main__":
    main()
