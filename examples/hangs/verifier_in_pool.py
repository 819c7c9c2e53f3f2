"""A verifier in a process pool doesn't come to an end, and the driver waits for its score.

---
computes: [driver/child]
state: hung
accept: [user-code, python-loop]
laggards: [driver/child]
"""

import multiprocessing


def simplify(expression):
    while expression != expression.replace("+0", ""):
        expression = expression.replace("+0", "") + "+0"
    return expression


def verify(answer):
    return float(simplify(answer) == "42")


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print("ready", flush=True)
        print(pool.map(verify, ["42", "41+0", "40"], chunksize=1))
