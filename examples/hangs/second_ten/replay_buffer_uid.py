"""A rollout fails, its failure is logged and dropped, and the trainer waits for its uid to be finished.

The agent loop catches whatever a rollout raises and goes on with the next; it only marks those that come to their end.
The trainer polls its buffer until every uid of the step has left "running".
https://github.com/verl-project/verl/issues/7155

---
state: hung
accept: [exception-swallowed, async-lost]
tie: [python-loop]
laggards: [driver]
"""

import asyncio
import json
import logging
import random
import threading
import time
import uuid

logging.basicConfig(format="%(levelname)s %(asctime)s %(name)s: %(message)s")
logger = logging.getLogger("agent_loop")


class TransferQueue:
    """Tags of the samples, by their uid."""

    def __init__(self):
        self.tags = {}
        self.lock = threading.Lock()

    def put(self, uid, **tag):
        with self.lock:
            self.tags.setdefault(uid, {}).update(tag)

    def list(self, step):
        with self.lock:
            return {uid: dict(tag) for uid, tag in self.tags.items() if tag["global_steps"] == step}


class ReplayBuffer:
    def __init__(self, queue, poll_interval=0.2):
        self.queue = queue
        self.poll_interval = poll_interval

    def ready(self, step):
        tags = self.queue.list(step)
        return tags and all(tag["status"] != "running" for tag in tags.values())

    def sample(self, step):
        while not self.ready(step):
            time.sleep(self.poll_interval)
        return self.queue.list(step)


class ToolAgentLoop:
    def __init__(self, seed):
        self.random = random.Random(seed)

    async def generate(self, turn, broken):
        await asyncio.sleep(self.random.uniform(0.1, 0.4))
        call = {"name": "search", "arguments": {"query": "x"}}
        if broken and turn == 2:
            call = {"name": "search", "parameters": {"query": "x"}}
        return json.dumps(call)

    async def call_tool(self, text):
        call = json.loads(text)
        await asyncio.sleep(0.1)
        return f"results for {call['arguments']['query']}"

    async def run(self, broken):
        transcript = []
        for turn in range(4):
            text = await self.generate(turn, broken)
            transcript += [text, await self.call_tool(text)]
        return transcript


class AgentLoopManager:
    """Rollouts in an event loop of its own thread."""

    def __init__(self, queue):
        self.queue = queue
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="agent-loop", daemon=True).start()

    async def run_rollout(self, uid, step, index):
        try:
            transcript = await ToolAgentLoop(index).run(broken=step == 2 and index == 3)
        except Exception as error:  # noqa: BLE001  # what the loop does in public, too
            logger.warning("rollout %s failed: %r", uid[:8], error)
            return
        self.queue.put(uid, status="finished", length=len(transcript))

    async def run_batch(self, uids, step):
        await asyncio.gather(*(self.run_rollout(uid, step, i) for i, uid in enumerate(uids)))

    def submit(self, uids, step):
        for uid in uids:
            self.queue.put(uid, status="running", global_steps=step)
        asyncio.run_coroutine_threadsafe(self.run_batch(uids, step), self.loop)


class PPOTrainerSync:
    def __init__(self):
        self.queue = TransferQueue()
        self.buffer = ReplayBuffer(self.queue)
        self.agents = AgentLoopManager(self.queue)

    def update_actor(self, batch):
        time.sleep(0.3)
        return sum(tag["length"] for tag in batch.values()) / len(batch)

    def fit(self):
        for step in range(100):
            self.agents.submit([uuid.uuid4().hex for _ in range(6)], step)
            if step == 2:
                print("ready", flush=True)
            batch = self.buffer.sample(step)
            print(f"step {step} num_turns/mean {self.update_actor(batch):.1f}", flush=True)


if __name__ == "__main__":
    PPOTrainerSync().fit()
