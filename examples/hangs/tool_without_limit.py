"""An agent's tool runs code that the model wrote, and that doesn't end.

---
computes: [driver/child]
state: hung
accept: [user-code]
tie: [python-loop]
laggards: [driver/child]
"""

import asyncio
import subprocess
import sys

WRITTEN_BY_THE_MODEL = "n = 1\nwhile n > 0:\n    n = n + 1\n"


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout


async def episode(number):
    code = WRITTEN_BY_THE_MODEL if number == 2 else "print(6 * 7)"
    return await asyncio.to_thread(run_python, code)


async def rollout():
    print("ready", flush=True)
    return await asyncio.gather(*(episode(number) for number in range(4)))


print(asyncio.run(rollout()))
