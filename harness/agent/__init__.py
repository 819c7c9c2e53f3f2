"""The workflow contract: find an agent, hold it against the contract, run it once in a process of its own.

An agent is what AReaL takes for one: any class with ``async def run(self, data, **extra_kwargs)`` that returns a
reward, or rewards by completion id. It is foreign code, so it never runs in the harness's process: it may print
floods, block, leave through ``os._exit`` or never come back, and the report must still be written.

``source``    where an agent is, without running any of its code
``contract``  loading and constructing it (in the child)
``rewards``   what ``run`` returned, described without keeping it (in the child)
``frames``    tracebacks and await stacks, cut to the user's own frames (in the child)
``child``     the child's main program
``many``      many runs at once (in the child), ``loop_watch`` what blocks their loop, ``awaiting`` what they wait for,
              ``holdings`` what their process holds; ``many_runner`` starts and follows it
``capture``   what a process prints
``stacks``    where a process waits, seen from outside
``runner``    starts the child, watches it, and gathers what happened

The modules marked "in the child" import nothing beyond the standard library before the agent's own modules do.
"""
