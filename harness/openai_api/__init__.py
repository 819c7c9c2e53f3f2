"""Talking to a server that speaks the OpenAI or Anthropic protocol, without an SDK, so that deviations show.

``http``     one request, and what came back or why nothing did
``sse``      server-sent events, as bytes arrive
``reading``  what a body or a stream says: text, tool calls, tokens, and where it leaves the protocol
``probes``   the questions that stage 1 asks a server
``calls``    one call to a language model, as plain data, read from the bytes on the wire
``proxy``    calls seen from outside an agent's process, whatever makes them
``observer`` calls seen inside an agent's process, through httpx

Nothing is imported here: ``observer``, ``calls``, ``reading`` and ``sse`` also run inside the process of an agent,
which should see as few foreign modules as possible; they need the standard library and the agent's own httpx alone.
"""
