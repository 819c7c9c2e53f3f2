"""Rollout consistency: do an inference engine and the trainer's model agree, token by token?

gather   ``conversations`` (what is asked), ``engine`` and ``dialects`` (the server's side), ``reference`` (the
         trainer's side, a process of its own: ``driver``), ``checkpoint``
decide   ``tokens``, ``figures``, ``limits``, ``profile``, ``reasons``: pure, on plain data
show     ``show`` and ``page``

``run`` puts them together.
"""
