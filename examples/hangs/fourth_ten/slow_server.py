"""A judge takes eight seconds for every answer, and both rollouts wait for it, again and again.

Nothing hangs: each request is answered in its turn, one thread for each.

---
processes: [judge, rollout0, rollout1]
state: slow
accept: [none, user-code, straggler, server-blocked]
"""

import json
import os
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ["HANG_PORT"])


class Judge(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(8)
        body = json.dumps({"score": 0.5}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def score(text):
    asked = urllib.request.Request(f"http://127.0.0.1:{PORT}/score", text.encode())
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)["score"]


def rollout(name):
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        print(name, number, score(f"answer {number}"), flush=True)


if sys.argv[1] == "judge":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Judge)
    print("ready", flush=True)
    server.serve_forever()
else:
    rollout(sys.argv[1])
