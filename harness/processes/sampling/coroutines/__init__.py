"""What asyncio's tasks await, read from another process's memory: nothing is stopped, nothing runs in there.

Stacks of an event loop that sleeps show the sleep only. What its tasks wait for lies in objects on the heap: from the
interpreter's symbols to ``sys.modules``, from there to asyncio's set of tasks, and along each task's coroutines. For
CPython 3.10 to 3.13 on 64 bits; Python 3.14 has a way of its own.
"""
