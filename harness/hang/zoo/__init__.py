"""Programs that hang on purpose (``examples/hangs``), each with what is true of it.

``program``      reads a program's header: how it is started, and the truth
``run``          starts it, waits until it hangs, ends it and all that it started
``interpreter``  a Python that has what a program needs
"""
