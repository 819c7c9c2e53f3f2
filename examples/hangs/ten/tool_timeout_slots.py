"""An agent's rollouts wait for a free tool slot, and there is none: every timeout has lost one.

The slot is taken before the call and given back after it, but the way out after a timeout forgets it. After as many
timeouts as there are slots every episode that is left waits for one, and the gather of the step waits for them.

---
state: hung
accept: [async-lost]
laggards: [driver]
"""

import asyncio
import random
from dataclasses import dataclass, field

SLOTS, EPISODES, TURNS, TIMEOUT = 4, 24, 3, 0.3


@dataclass
class Episode:
    uid: int
    prompt: str
    messages: list = field(default_factory=list)
    reward: float = 0.0
    truncated: bool = False


async def handle_query(reader, writer):
    """A search tool; what it hasn't indexed takes it rather long."""
    query = (await reader.readline()).decode().strip()
    await asyncio.sleep(5 if "rare" in query else 0.01)
    writer.write(f"3 results for {query}\n".encode())
    writer.close()


class SearchTool:
    def __init__(self, port):
        self.port = port
        self.slots = asyncio.Semaphore(SLOTS)

    async def query(self, text):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"{text}\n".encode())
            return (await reader.readline()).decode()
        finally:
            writer.close()

    async def __call__(self, text):
        await self.slots.acquire()
        try:
            result = await asyncio.wait_for(self.query(text), TIMEOUT)
        except asyncio.TimeoutError:
            print(f"search timed out: {text}", flush=True)
            return None
        self.slots.release()
        return result


async def generate(episode):
    await asyncio.sleep(random.uniform(0.001, 0.02))
    return f"{'rare' if random.random() < 0.2 else 'common'} topic {episode.uid}"


async def run_episode(episode, tool):
    for _ in range(TURNS):
        text = await generate(episode)
        answer = await tool(text)
        if answer is None:
            episode.truncated = True
            return episode
        episode.messages += [text, answer]
    episode.reward = 1.0
    return episode


async def main():
    server = await asyncio.start_server(handle_query, "127.0.0.1", 0)
    tool = SearchTool(server.sockets[0].getsockname()[1])
    print("ready", flush=True)
    for step in range(1000):
        episodes = [Episode(i, f"question {i}") for i in range(EPISODES)]
        finished = await asyncio.gather(*(run_episode(e, tool) for e in episodes))
        print(f"step {step} reward {sum(e.reward for e in finished) / EPISODES:.2f}", flush=True)


if __name__ == "__main__":
    random.seed(3)
    asyncio.run(main())
