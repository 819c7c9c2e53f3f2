"""A server for rewards that nobody asks for anything.

It sleeps until a request comes. That is no hang.

---
processes: [server]
state: idle
accept: [none]
quick: true
"""

import http.server
import os


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    do_POST = do_GET


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["HANG_PORT"])), Handler)
print("ready", flush=True)
server.serve_forever()
