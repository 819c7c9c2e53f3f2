"""Asks a registry what a tag or a digest leads to now, through the engine, which is who would pull it.

Gathers only: an answer also says why there is none. The digest is that of the multi-platform index where there is one,
so that a lock made on one architecture holds on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import docker.errors
import requests.exceptions

from harness import docker_engine
from harness.errors import ImageUnavailable

# A registry that is there answers in well under a second; a network that swallows packets never does.
ASK_SECONDS = 8

Failure = Literal["gone", "login", "limited", "untrusted", "unreachable", "faulty"]


@dataclass(frozen=True)
class Answer:
    """What a registry said.

    Attributes:
        digest: what the reference leads to; "" where there is none.
        platforms: ``os/architecture`` of each image in it.
        failure: why there is no digest; None where there is one.
        said: the engine's or the registry's own words.
    """

    digest: str = ""
    platforms: tuple[str, ...] = ()
    failure: Failure | None = None
    said: str = ""


def ask(image: str, seconds: int = ASK_SECONDS) -> Answer:
    """Ask for one image, by tag or digest; never longer than a person would wait."""
    try:
        # A connection of its own: the shared one waits longer.
        client = docker_engine.connect(timeout=seconds)
    except docker.errors.DockerException as error:
        return Answer(failure="unreachable", said=str(error))
    try:
        found = client.images.get_registry_data(image)
    except docker.errors.APIError as error:
        said = str(error.explanation or error)
        return Answer(failure=judge(getattr(error.response, "status_code", 500), said), said=said)
    except requests.exceptions.RequestException:
        return Answer(failure="unreachable", said=f"no answer within {seconds} s")
    finally:
        client.close()
    return Answer(digest=str(found.id), platforms=tuple(sorted(map(_platform, found.attrs.get("Platforms") or []))))


def judge(status: int, said: str) -> Failure:
    """The kind of a refusal, from the engine's status and words: engines hand on the registry's own in many ways."""
    text = said.lower()
    if "x509:" in text or "certificate" in text:
        return "untrusted"
    if status == 429 or "toomanyrequests" in text or "too many requests" in text or "rate limit" in text:
        return "limited"
    if status in (401, 403) or any(word in text for word in ("unauthorized", "denied", "no basic auth", "credentials")):
        return "login"
    if status == 404 or "manifest unknown" in text or "name unknown" in text or "not found" in text:
        return "gone"
    if any(word in text for word in ("dial tcp", "no such host", "refused", "timeout", "deadline", "unreachable")):
        return "unreachable"
    return "faulty"


REASONS: dict[Failure, str] = {
    "gone": "the image registry has no such image any more",
    "login": "the image registry wants a login, or this one may not see it",
    "limited": "the image registry has had too many requests from this address",
    "untrusted": "the engine doesn't trust the image registry's certificate",
    "unreachable": "no image registry answers",
    "faulty": "the image registry gives no answer that can be understood",
}


def reason(answer: Answer) -> str:
    """Why there is no digest, in a few words."""
    return REASONS[answer.failure or "faulty"]


def mend(image: str, answer: Answer) -> str:
    """What to do about it."""
    host = image.split("/")[0] if "/" in image else ""
    return {
        "gone": "make lock   # shows where its tag leads now",
        "login": f"docker login {host}",
        "limited": f"docker login {host}   # raises the limit; or wait, or make up IMAGE_MIRROR=HOST/PATH",
        "untrusted": f"put your authority's certificate into /etc/docker/certs.d/{host}/ca.crt   # needs no restart",
        "unreachable": "make up IMAGE_MIRROR=HOST/PATH   # a mirror that this machine reaches",
        "faulty": "make doctor TOPIC=network",
    }[answer.failure or "faulty"]


def unavailable(image: str, answer: Answer) -> ImageUnavailable:
    """The error for an image that a registry doesn't give."""
    said = answer.said[:200].rstrip(".")
    return ImageUnavailable(f"The image {image} can't be pulled: {reason(answer)} ({said}).", mend=mend(image, answer))


def _platform(raw: dict[str, Any]) -> str:
    return "/".join(part for part in (raw.get("os"), raw.get("architecture"), raw.get("variant")) if part)
