"""A reward loop that goes on until it is ended; it says ready once, and counts its steps into a file.

program.py STEPS_FILE [RANK]
"""

import sys
import time


class Vector:
    """Stands in for a tensor: it has a shape, and whoever looks at its numbers is counted."""

    shape, dtype, device = (4,), "float32", "cuda:0"
    looked = 0

    def __repr__(self) -> str:
        Vector.looked += 1
        return "Vector moved to the CPU"


class Tokenizer:
    def decode(self, ids: list[int]) -> str:
        return " ".join(f"<{number}>" for number in ids)


def score(step: int, prompt: str, values: Vector, tokenizer: Tokenizer) -> float:
    reward = -(step % 5) / 2
    ids = [step, step + 1]  # noqa: F841  # looked at by the tests
    if reward > 100:
        raise ValueError("never")
    return reward


def main() -> None:
    path = sys.argv[1]
    values, tokenizer = Vector(), Tokenizer()
    print("ready", flush=True)
    step = 0
    while True:
        step += 1
        score(step, f"prompt {step % 5}\n", values, tokenizer)
        with open(path, "w") as file:
            file.write(str(step))
        time.sleep(0.02)


main()
