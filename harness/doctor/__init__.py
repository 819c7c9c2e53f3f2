"""The doctor: finds out what is wrong with this machine or the stack, without changing anything.

* ``findings``  what a check says: a sign, a text, and for what is wrong its consequence and the command that mends it
* ``check``     what a check is
* ``context``   what checks share: the settings, and one look at the Docker engine and at the model
* ``running``   runs checks side by side, each with a time limit
* ``report``    counts, the exit code, the JSON document
* ``showing``   the lines that a person reads
* ``fixing``    what ``FIX=1`` offers to run
* ``bundle``    `make report`: one file for whoever is to help
* ``topics``    the checks themselves, a file or more a topic: ``gather`` reads the world and returns plain data,
  ``decide`` is pure

To add a check: write ``gather`` and ``decide`` in its topic's file or in one beside it, name it in that file's
``CHECKS``, test ``decide`` in ``tests/unit/doctor``, once where it is fine and once where it isn't, and say in
``docs/doctor.md`` what it means. CONTRIBUTING.md shows it.
"""
