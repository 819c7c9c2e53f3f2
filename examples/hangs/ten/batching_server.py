"""A generation server that has answered its only client waits for the next request.

Three threads stand still, as they should: the one that accepts connections, the one that collects requests into a
batch and the one that runs batches. The client has what it wanted and has ended.

---
processes: [server, client]
state: idle
accept: [none]
laggards: []
"""

import json
import os
import queue
import sys
import threading
import time
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.request import Request, urlopen

PORT = int(os.environ["HANG_PORT"])


class Engine:
    """Collects requests for a moment, runs them as one batch, gives each its part of the answer."""

    def __init__(self, max_batch=8, window=0.02):
        self.max_batch, self.window, self.requests = max_batch, window, queue.Queue()
        self.batches, self.more = [], threading.Condition()
        for name, target in (("batcher", self.collect), ("runner", self.run)):
            threading.Thread(target=target, name=name, daemon=True).start()

    def submit(self, prompt, n):
        future = Future()
        self.requests.put((prompt, n, future))
        return future.result()

    def collect(self):
        while True:
            batch, until = [self.requests.get()], time.monotonic() + self.window
            while len(batch) < self.max_batch and (left := until - time.monotonic()) > 0:
                try:
                    batch.append(self.requests.get(timeout=left))
                except queue.Empty:
                    break
            with self.more:
                self.batches.append(batch)
                self.more.notify()

    def run(self):
        while True:
            with self.more:
                self.more.wait_for(lambda: self.batches)
                batch = self.batches.pop(0)
            for prompt, n, future in batch:
                future.set_result([f"{prompt} -> {i}" for i in range(n)])  # a model's answer


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.server.engine.submit(body["prompt"], body["n"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


def client():
    for i in range(20):
        data = json.dumps({"prompt": f"question {i}", "n": 2}).encode()
        answer = None
        while answer is None:
            try:
                answer = json.load(urlopen(Request(f"http://127.0.0.1:{PORT}", data)))
            except URLError:
                time.sleep(0.2)  # not up yet
    print("ready", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "client":
        sys.exit(client())
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    server.engine = Engine()
    print("ready", flush=True)
    server.serve_forever()
