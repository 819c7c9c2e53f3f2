"""Every thread of a pool waits for a task that only a thread of the same pool could do.

Preparing a batch is a task of the pool, and it hands the pool one task an example. As in the documentation of
concurrent.futures and python/cpython#141620.

---
state: hung
accept: [async-lost]
tie: [rpc-queue, data-worker]
laggards: [driver]
"""

from concurrent.futures import ThreadPoolExecutor


class Preparer:
    def __init__(self, threads=4):
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="prepare")

    def encode(self, text):
        return [ord(letter) for letter in text]

    def one_batch(self, texts):
        encoded = [self.pool.submit(self.encode, text) for text in texts]
        return [future.result() for future in encoded]

    def epoch(self, batches):
        futures = [self.pool.submit(self.one_batch, texts) for texts in batches]
        return [future.result() for future in futures]


if __name__ == "__main__":
    texts = [f"prompt {number}" for number in range(64)]
    print("ready", flush=True)
    print(len(Preparer().epoch([texts[start : start + 8] for start in range(0, 64, 8)])))
