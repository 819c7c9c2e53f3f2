"""The driver waits for its scoring process to end before it reads what that has put into the queue.

A child ends only when its queue has been written to the pipe, and the pipe is full. Small results fit, so it worked
until somebody scored with traces. As in PrefectHQ/prefect#5213 and jonatanjacobsson/ifcpipeline#28.

---
state: hung
accept: [rpc-queue]
tie: [data-worker]
laggards: []
"""

import multiprocessing


def score_all(answers, results):
    results.put([{"answer": answer, "reward": float(len(answer)), "trace": answer * 200} for answer in answers])


def evaluate(answers):
    results = multiprocessing.Queue()
    worker = multiprocessing.Process(target=score_all, args=(answers, results))
    worker.start()
    print("ready", flush=True)
    worker.join()
    return results.get()


if __name__ == "__main__":
    print(len(evaluate([f"the answer is {number}" for number in range(300)])))
