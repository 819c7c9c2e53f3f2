"""A critic's values run away until they are no numbers: found after the exception, in the worker that raised it.

python debugging/critic_values.py
"""

import math

import ray


@ray.remote(runtime_env={"env_vars": {"RAY_DEBUG_POST_MORTEM": "1"}}, max_retries=0)
def train(learning_rate: float, steps: int) -> list[float]:
    """A linear critic that learns to say 1 for everything. The mistake: the learning rate is far too high."""
    weights = [0.1, -0.2, 0.3]
    batch = [[1.0, 2.0, 3.0], [2.0, -1.0, 0.5], [0.5, 0.5, 4.0]]
    for step in range(steps):
        values = [sum(w * h for w, h in zip(weights, hidden, strict=True)) for hidden in batch]
        if not all(math.isfinite(value) for value in values):
            raise FloatingPointError(f"values are not finite at step {step}")
        for hidden, value in zip(batch, values, strict=True):
            weights = [w - learning_rate * (value - 1.0) * h for w, h in zip(weights, hidden, strict=True)]
    return values


def main() -> None:
    ray.init(log_to_driver=False)
    print("ready", flush=True)
    try:
        print("values", ray.get(train.remote(learning_rate=5.0, steps=10_000)))
    except ray.exceptions.RayTaskError as error:
        print("the task failed:", error.cause, flush=True)


if __name__ == "__main__":
    main()
