"""The engine waits for its worker's answer, the worker for the engine's next call: a message was lost in between.

---
state: hung
accept: [rpc-queue]
laggards: []
"""

import multiprocessing


def worker_loop(calls, answers):
    while True:
        call = calls.get()
        if call == "collective_rpc":
            continue  # the answer that is forgotten
        answers.put(call)


def engine_step(calls, answers, call):
    calls.put(call)
    return answers.get()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    calls, answers = context.Queue(), context.Queue()
    context.Process(target=worker_loop, args=(calls, answers), daemon=True).start()
    engine_step(calls, answers, "step")
    print("ready", flush=True)
    engine_step(calls, answers, "collective_rpc")
