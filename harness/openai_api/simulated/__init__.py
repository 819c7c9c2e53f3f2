"""Our own server in place of a real one: it speaks OpenAI's and Anthropic's protocols and generates nothing.

It judges the agent alone: answers take as long as they are told to, any number of them at once, and what a cluster
does now and then (refuses, breaks off, is slow) it does on demand, the same way for the same seed.

``faults``   which fault a call meets, decided by the seed alone
``answers``  bodies and events of the answers
``server``   the server
``process``  the server as a process of its own
"""
