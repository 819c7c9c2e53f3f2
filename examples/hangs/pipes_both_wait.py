"""Engine and scheduler talk over a socket, and after a restart each waits for the other to speak first.

---
processes: [engine, scheduler]
state: hung
accept: [rpc-queue]
laggards: []
"""

import os
import sys
from multiprocessing.connection import Client, Listener

ADDRESS = os.path.join(os.environ["HANG_FOLDER"], "rpc")


def engine():
    with Listener(ADDRESS, "AF_UNIX") as listener:
        print("ready", flush=True)
        with listener.accept() as connection:
            connection.send(connection.recv())


def scheduler():
    with Client(ADDRESS, "AF_UNIX") as connection:
        print("ready", flush=True)
        connection.recv()


engine() if sys.argv[1] == "engine" else scheduler()
