"""Watches a program at night: when nothing gets on for a while, it is dumped once and somebody is told.

``looks``   one cheap look: CPU time, logs, step counter, GPU; no process is stopped for it
``quiet``   decides from looks whether, and since when, nothing gets on
``alarm``   decides from two dumps whether somebody is to be told
``run``     looks, dumps, tells, and goes on looking; never ends what it watches
``notify``  tells: a command, a webhook
``inside``  the same from inside the program that is watched (``harness.watch``)
"""
