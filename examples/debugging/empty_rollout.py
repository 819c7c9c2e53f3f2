"""A rollout comes back empty, and the reason is the room that is left for new tokens: found at a breakpoint.

python debugging/empty_rollout.py
"""

import ray

CONTEXT = 64


@ray.remote
class RolloutWorker:
    """Generates answers; tokens are words here."""

    def __init__(self, context: int) -> None:
        self.context = context

    def generate(self, prompts: list[str]) -> list[list[str]]:
        # The mistake: every answer gets what the longest prompt leaves over, and that may be less than nothing.
        longest = max(len(prompt.split()) for prompt in prompts)
        room = self.context - longest
        outputs = [["word"] * room for _ in prompts]
        if not any(outputs):
            breakpoint()
        return outputs


def main() -> None:
    ray.init(log_to_driver=False)
    worker = RolloutWorker.remote(CONTEXT)
    print("ready", flush=True)
    for length in (10, 30, 70):
        outputs = ray.get(worker.generate.remote(["one two three", "word " * length]))
        print(f"longest prompt {length}: {sum(map(len, outputs))} new tokens", flush=True)


if __name__ == "__main__":
    main()
