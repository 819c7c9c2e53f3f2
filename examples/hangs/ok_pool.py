"""A driver with a pool of reward workers; they have nothing to do while it prepares the next batch.

---
state: slow
accept: [none]
"""

import multiprocessing


def score(answer):
    return len(answer)


def prepare(step):
    rows = []
    for number in range(200_000):
        rows.append(f"{step}:{number}")
        if number % 1000 == 0:
            rows = sorted(rows)[-100:]
    return rows


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for step in range(1_000_000_000):
            pool.map(score, prepare(step)[:4])
            if step == 0:
                print("ready", flush=True)
