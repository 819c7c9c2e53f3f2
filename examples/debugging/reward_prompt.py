"""Rewards are far too low now and then, and the reason is in the prompt: found by a log point; nothing stops.

python debugging/reward_prompt.py [SECONDS]
"""

import sys
import time

import ray

QUESTIONS = [("2 + 2?", "4"), ("The capital of France?", "Paris"), ("3 * 3?", "9"), ("The colour of snow?", "white")]


@ray.remote
class RewardModel:
    """Scores an answer; it was trained on prompts that end with the assistant's turn."""

    def compute(self, prompt: str, response: str, answer: str) -> float:
        reward = 1.0 if answer in response else 0.0
        if not prompt.endswith("<|assistant|>\n"):
            reward -= 2.0
        return reward


def as_prompt(question: str, history: list[str]) -> str:
    """The chat template. The mistake: with a history it ends in the mark that ends a text."""
    turns = "".join(f"{turn}<|endoftext|>" for turn in history)
    prompt = f"{turns}<|user|>\n{question}\n<|assistant|>\n"
    return prompt + "<|endoftext|>" if history else prompt


def main() -> None:
    ray.init(log_to_driver=False)
    model = RewardModel.remote()
    print("ready", flush=True)
    end = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 600)
    step = 0
    while time.monotonic() < end:
        question, answer = QUESTIONS[step % 4]
        history = ["Hello."] if step % 4 == 3 else []
        ray.get(model.compute.remote(as_prompt(question, history), f"It is {answer}.", answer))
        step += 1
        time.sleep(0.05)


if __name__ == "__main__":
    main()
