"""Calls to a language model, kept as they went over the wire, and given again without any server.

``exchange``   one call with its answer, as plain data and as a line of a file
``tape``       makes one while the bytes pass by
``clean``      the same without secrets
``store``      a folder of them: written while runs go on, read again
``matching``   which recorded answer a request gets; the nearest one and the difference where it gets none
``inside``     answers inside the agent's process, below httpx
``player``     answers on a port of 127.0.0.1, for whatever isn't httpx in that process

``exchange``, ``matching``, ``inside`` and what of ``store`` reads also run inside the process of an agent; they need
the standard library alone.
"""
