"""Stage 4: the agent inside AReaL's own rollout controller or verl's own agent loops, against the server that runs.

``driver``   a program that runs in AReaL's interpreter and says what happens; ``verl_driver`` likewise in verl's
``inside``   what a framework's worker imports in the agent's place: the agent, with a note of what it returned
``doors``    two ports of 127.0.0.1 that see the calls of agents and of the framework's engine
``peers``    whose the other end of a connection is, for the port that puts a server's key in
``wanted``   what to do, from the settings and the training configuration
``job``      what a driver is told: its file and its environment
``gather``   starts the driver, follows it, takes a hang dump where nothing moves, ends all it has started
``stall``    decides, while it runs, whether anything can still move
``reasons``  reads a worker's own reason out of its log
``rules``    judges: ``course_rules`` how it went, ``trajectory_rules`` what came back, read by ``tensors``
``support``  what AReaL supports, and what of it can be run here
``stage``    puts these together
"""
