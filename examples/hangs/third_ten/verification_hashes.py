"""A pool of two verifies solutions, each for many seconds in one call of a C function; the driver waits in imap.

Nothing hangs: every verification ends, only not soon.

---
computes: [driver/child]
state: slow
accept: [none, user-code, data-worker]
laggards: []
"""

import hashlib
import multiprocessing as mp


def verify(x):
    hashlib.pbkdf2_hmac("sha256", b"%d" % x, b"salt", 9_000_000)
    return 1.0


if __name__ == "__main__":
    with mp.Pool(2) as pool:
        print("ready", flush=True)
        for i, _ in enumerate(pool.imap_unordered(verify, range(100_000))):
            print("scored", i, flush=True)
