"""The reward server is stopped, and the trainer waits for its answer without a time limit.

---
processes: [server, trainer]
state: hung
accept: [stopped]
tie: [server-blocked]
laggards: [server]
"""

import http.server
import os
import signal
import sys
import urllib.request

PORT = int(os.environ["HANG_PORT"])


class Rewards(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        os.kill(os.getpid(), signal.SIGSTOP)


def serve():
    server = http.server.HTTPServer(("127.0.0.1", PORT), Rewards)
    print("ready", flush=True)
    server.serve_forever()


def train():
    print("ready", flush=True)
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/score") as answer:
        print(answer.read())


serve() if sys.argv[1] == "server" else train()
