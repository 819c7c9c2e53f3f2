"""A reward service with one thread asks the judge for a verdict, and the judge is a route of the same service.

The judge used to be a machine of its own; it was moved into the service and its address now points to the service
itself. Answers that the rules can settle never ask it. The first one that they can't settle blocks the only thread.

---
processes: [reward]
ranks: 2
needs: [torch]
state: hung
accept: [server-blocked]
tie: [user-code]
laggards: [reward]
"""

import json
import os
import sys
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.error import URLError
from urllib.request import Request, urlopen

URL = f"http://127.0.0.1:{os.environ['HANG_PORT']}"
JUDGE_URL = os.environ.get("JUDGE_URL", URL)


def post(url, body):
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request) as response:
        return json.load(response)


def score_one(item):
    answer, gold = item["answer"].strip(), item["gold"].strip()
    if answer == gold:
        return 1.0
    if answer.isdigit() and gold.isdigit():
        return 0.0
    return post(f"{JUDGE_URL}/judge", {"answer": answer, "gold": gold})["score"]


def judge(item):
    words = set(item["gold"].lower().split())
    return len(words & set(item["answer"].lower().split())) / max(len(words), 1)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/judge":
            result = {"score": judge(body)}
        else:
            result = {"scores": [score_one(item) for item in body["items"]]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(result).encode())


def serve():
    server = HTTPServer(("127.0.0.1", int(os.environ["HANG_PORT"])), Handler)
    print("ready", flush=True)
    server.serve_forever()


def train():
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(hours=12))
    rank = dist.get_rank()
    for step in range(1000):
        answer = "about forty two" if step == 4 else str(40 + step)
        if step == 4:
            print("ready", flush=True)
        scores = [None]
        while rank == 0 and scores[0] is None:
            try:
                scores[0] = post(f"{URL}/score", {"items": [{"answer": answer, "gold": "42"}] * 4})["scores"]
            except URLError:
                time.sleep(0.2)  # the service is still starting
        dist.broadcast_object_list(scores, src=0)
        print(f"rank {rank} step {step} scores {scores[0]}", flush=True)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["reward"] else train()
