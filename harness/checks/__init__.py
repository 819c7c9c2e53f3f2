"""The staged checks: a server, one run of an agent; later hundreds of runs at once, and a framework's own controller.

``findings``     what a check found, as plain data that every stage fills and every report shows
``samples``      the data set: one JSON object a line
``stage1``       asks a server everything that later stages need, and judges the answers
``stage1_rules`` the judgements, one function each, pure
``stage2``       runs an agent once
``stage2_rules`` the judgements on that run, pure
``stage3``       runs an agent many times at once: ``stage3_gather`` gathers, ``stage3_rows`` makes rows of it,
                 ``stage3_ends``, ``stage3_rules``, ``stage3_speed`` and ``scaling`` judge, ``stage3_keep`` keeps
``stage4``       rolls a batch out in AReaL's own controller, in a process of AReaL's interpreter
``stage3_data``  the shape of what is kept
``bare_client``  makes an agent's calls once more, with nothing around them
``train_config`` the few numbers of a training configuration that stage 3 needs
``report``       all stages of one call of ``harness check``, for JSON and JUnit
``show``         the same for a person
"""
