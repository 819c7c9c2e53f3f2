"""The base image: pulled by digest where a registry answers, made from Debian's packages where none does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import docker.errors
import docker.utils
import requests.exceptions

from harness import console, docker_engine
from harness.errors import ImageMoved
from harness.settings import Settings
from harness.stack.images import bootstrap, context, ledger, registry
from harness.stack.images.build import IMAGE_LABEL, NAMESPACE_LABEL, BuiltImage, Recipe, build, existing
from harness.stack.images.catalogue import Catalogue, mirrored
from harness.stack.images.host_config import HostConfig
from harness.stack.images.lock import Lock, Locked, refuse_floating

# The last part of the name of an image of others that came in a folder (`make load`).
CARRIED = "carried"
# A registry that is there answers in well under a second; a network that swallows packets never does.
PROBE_SECONDS = 5
# Silence between two messages of a pull, not the pull's duration.
PULL_SECONDS = 120


def ensure_base(client: Any, settings: Settings, catalogue: Catalogue, host: Callable[[], HostConfig]) -> BuiltImage:
    """The image that all others stand on.

    ``BASE=registry`` pulls, ``BASE=bootstrap`` makes, ``BASE=auto`` takes what is here already, else asks the registry
    and makes one where it doesn't answer. ``host`` is called only if something has to be made.

    Raises:
        BaseUnavailable: neither way works.
    """
    if found := find_base(client, settings, catalogue):
        return found
    if settings.base == "bootstrap":
        return _bootstrap(client, settings, catalogue, host(), made_name(settings, catalogue))
    pulled_name = mirrored(catalogue.base.image, settings.image_mirror)
    if settings.base == "auto" and (refused := registry.ask(pulled_name, PROBE_SECONDS)).failure:
        console.note(f"{registry.reason(refused)}; the base image is made here from Debian packages")
        return _bootstrap(client, settings, catalogue, host(), made_name(settings, catalogue))
    pull_locked(client, settings, catalogue.lock, catalogue.base.image)
    recipe = _on_pulled(client, catalogue, pulled_name)
    assert recipe is not None
    return build(client, settings, recipe, host(), [], "base image, on the registry's")


def find_base(client: Any, settings: Settings, catalogue: Catalogue) -> BuiltImage | None:
    """The base image that is here already and that `ensure_base` takes then; asks no registry."""
    if settings.base != "bootstrap":
        name = mirrored(catalogue.base.image, settings.image_mirror)
        for there in (name, carried_name(settings, catalogue.base.image)):
            pulled = _on_pulled(client, catalogue, there)
            if pulled and (found := existing(client, pulled.tag(settings.namespace))):
                return found
        if settings.base == "registry":
            return None
    return existing(client, made_name(settings, catalogue))


def made_name(settings: Settings, catalogue: Catalogue) -> str:
    """The name of the base image that is made from Debian's packages."""
    return f"{settings.namespace}/base:{context.digest([], *bootstrap.facts(catalogue.base))}"


def carried_name(settings: Settings, image: str) -> str:
    """The name under which an image of others lies in a saved stack, and in the engine that loaded it.

    An engine forgets digests when it saves an image, and takes none from whoever loads one.

    Args:
        image: as it is locked or asked for, without a mirror.
    """
    return f"{settings.namespace}/{CARRIED}:{context.digest([], image)}"


def pull_locked(client: Any, settings: Settings, lock: Lock, image: str) -> str:
    """Pull an image as far as the lock allows it; returns the name that it then has in this engine.

    A digest that a registry has confirmed is pulled as it is, wherever its tag leads by now. One that was only found
    somewhere is first compared with what the tag leads to. An image in no lock is pulled, with a warning.

    Args:
        image: by tag, digest or both, without a mirror.

    Raises:
        FloatingTag: it has neither a version nor a digest.
        ImageMoved: the tag leads to another image than the unconfirmed digest.
        ImageUnavailable: no registry gives it, and why.
    """
    refuse_floating(image)
    entry = lock.of(image)
    wanted = entry.reference if entry else image
    name = mirrored(wanted, settings.image_mirror)
    if entry and not entry.verified:
        _compare(entry, mirrored(entry.image, settings.image_mirror))
    elif "@" not in wanted:
        console.warn(f"{image} is in no lock: its tag may lead to another image tomorrow")
        console.mend(f"make lock FRAMEWORK={image}   # pins what it is now")
    pull(client, settings, name)
    return name


def _compare(entry: Locked, tag: str) -> None:
    """Hold an unconfirmed digest against what the tag leads to now."""
    answer = registry.ask(tag)
    if answer.failure:
        raise registry.unavailable(tag, answer)
    if answer.digest != entry.digest:
        raise ImageMoved(
            f"{entry.image} leads to {answer.digest}, and docker/images.lock has {entry.digest}, unverified "
            f"({entry.source or 'no source given'})."
        )
    console.note(f"the registry confirms the digest of {entry.image}; `make lock` writes that down")


def pull(client: Any, settings: Settings, image: str) -> None:
    """Pull an image by its full name, with progress; noted down, so that `clean` can remove it.

    Raises:
        ImageUnavailable: it can't be pulled.
    """
    try:
        with console.step(f"pulling {image.partition('@')[0]}") as step:
            patient = docker_engine.connect(timeout=PULL_SECONDS)
            for event in patient.api.pull(*_name_and_tag(image), stream=True, decode=True):
                if "error" in event:
                    raise docker.errors.APIError(event["error"])
                step.update(" ".join(filter(None, (event.get("id"), event.get("status"), event.get("progress")))))
        ledger.note_pulled(client, settings, image)
    except (docker.errors.APIError, requests.exceptions.RequestException) as error:
        said = str(getattr(error, "explanation", None) or error)
        status = getattr(getattr(error, "response", None), "status_code", 500)
        raise registry.unavailable(image, registry.Answer(failure=registry.judge(status, said), said=said)) from None


def _name_and_tag(image: str) -> tuple[str, str]:
    """An image's name and its digest, or its tag where it has no digest, as the engine takes them."""
    name, tag = docker.utils.parse_repository_tag(image)
    if "@" in image:
        name, _ = docker.utils.parse_repository_tag(name)
    return name, tag or "latest"


def _on_pulled(client: Any, catalogue: Catalogue, image: str) -> Recipe | None:
    """The recipe on the pulled image, None as long as that isn't here."""
    found = docker_engine.image_id(client, image)
    if found is None:
        return None
    spec = catalogue.images["base"]
    return Recipe(
        "base", image, found, context.entries_for(catalogue, spec), {"PACKAGES": " ".join(catalogue.base.packages)}
    )


def _bootstrap(client: Any, settings: Settings, catalogue: Catalogue, host: HostConfig, reference: str) -> BuiltImage:
    bootstrap.ensure_mmdebstrap(catalogue.root)
    labels = {IMAGE_LABEL: "base", NAMESPACE_LABEL: settings.namespace}
    bootstrap.make_base(settings, catalogue.base, host.apt, reference, labels)
    return BuiltImage(reference, client.images.get(reference).id, fresh=True)
