"""The trainer's side: a program that runs on an interpreter with torch and transformers, and imports nothing of ours.

``__main__``   reads requests from standard input, one JSON document a line, and answers in the same way
``model``      weights in, hidden states out, memory bounded by a number of tokens
``scoring``    log-probabilities of given tokens, also as other sampling parameters would make them
``generating`` outputs of the model itself
``rewards``    calls a reward function of the user's; a program of its own
``text``       chat template and tokenizer
``memory``     what scoring takes beyond the weights
"""
