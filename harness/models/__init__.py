"""Models: what ``MODEL=`` means, and how its weights get onto this machine and into the inference container.

* ``resolve``            what ``MODEL=`` means; asks no network
* ``ensure_weights``     the weights, found or fetched, and how to mount them
* ``here``               the same without any network, None where they aren't
* ``finish_conversion``  puts in place what a converter wrote; ``abandon_conversion`` removes it
* ``installed``          what is here already; ``disk_usage`` and ``remove`` for our own cache

Inside: ``catalogue`` (names), ``plan`` (decides), ``hub`` and ``selection`` (ask), ``fetch`` and ``packages``
(download), ``folders`` and ``gguf`` (check), ``mount``, ``cache`` and ``inventory`` (places).
"""

from harness.models.inventory import Installed, disk_usage, installed, remove
from harness.models.mount import container_uid
from harness.models.plan import ModelPlan, resolve
from harness.models.weights import (
    Conversion,
    ModelFiles,
    abandon_conversion,
    configuration,
    ensure_weights,
    finish_conversion,
    here,
)

__all__ = [
    "Conversion",
    "Installed",
    "ModelFiles",
    "ModelPlan",
    "abandon_conversion",
    "configuration",
    "container_uid",
    "disk_usage",
    "ensure_weights",
    "finish_conversion",
    "here",
    "installed",
    "remove",
    "resolve",
]
