"""What a node and its head tell each other before the node joins, and what follows from it; the decisions are pure.

The token itself never travels here: whoever asks proves that they know it, and so does the head with its answer. So a
token isn't given away to whatever else answers at that address, and a node doesn't believe a stranger.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

PROOF = "X-Drydock-Proof"
NONCE = "X-Drydock-Nonce"
SECONDS = 5.0
LARGEST = 4 << 20
# Times of several machines stand side by side in a dump; beyond the second figure they only mislead.
SKEW_TOLD, SKEW_REFUSED = 1.0, 30.0

Kind = Literal["unreachable", "stranger", "token", "version", "clock", "ports"]


class Refused(Exception):
    """A node can't join; ``what`` says why, ``mend`` what to do about it."""

    def __init__(self, kind: Kind, what: str, mend: str) -> None:
        super().__init__(what)
        self.kind, self.what, self.mend = kind, what, mend


@dataclass(frozen=True)
class Facts:
    """What a node is made of.

    Attributes:
        image: the image's name; its tag is a digest of all that it is made from.
        packages: name to version of every Python package.
        told: what only a head has to say: addresses and key of the inference server, names of its model.
    """

    image: str
    ray: str
    python: str
    packages: Mapping[str, str]
    told: Mapping[str, str]
    time: float

    def as_dict(self) -> dict[str, Any]:
        """For the wire."""
        return {**self.__dict__, "packages": dict(self.packages), "told": dict(self.told)}

    @classmethod
    def read(cls, raw: Any) -> Facts:
        """What came over the wire.

        Raises:
            ValueError: it is no such thing.
        """
        try:
            return cls(**{name: raw[name] for name in cls.__dataclass_fields__})
        except (KeyError, TypeError):
            raise ValueError("these are no facts of a head") from None


def own_facts(environ: Mapping[str, str] = os.environ) -> Facts:
    """Gather: what this container is made of."""
    packages = {item.metadata["Name"].lower(): item.version for item in metadata.distributions() if item.metadata}
    told = {
        name: environ.get(name, "")
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OPENAI_MODEL")
        if environ.get(name)
    }
    key = read_secret(environ.get("DRYDOCK_API_KEY_FILE", "/run/secrets/api_key"))
    if key:
        told |= {"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": key}
    return Facts(
        image=environ.get("DRYDOCK_IMAGE", ""),
        ray=packages.get("ray", ""),
        python=sys.version.split()[0],
        packages=packages,
        told=told,
        time=time.time(),
    )


def read_secret(path: str | os.PathLike[str]) -> str:
    """A key file's content, "" where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def proof(token: str, *parts: str) -> str:
    """What only somebody with the token can make of these parts."""
    text = "\n".join(hashlib.sha256(part.encode()).hexdigest() for part in parts)
    return hmac.new(token.encode(), b"drydock meeting " + text.encode(), hashlib.sha256).hexdigest()


def ask(host: str, port: int, token: str, path: str, body: Any = None, *, seconds: float = SECONDS) -> Any:
    """Ask a head's meeting place; returns the JSON of its answer.

    Raises:
        Refused: nobody answers there, it is somebody else, or the token is wrong.
    """
    text, nonce = json.dumps(body), secrets.token_hex(16)
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("POST", path, text, {NONCE: nonce, PROOF: proof(token, path, nonce, text)})
        answer = connection.getresponse()
        data = answer.read(LARGEST).decode("utf-8", "replace")
    except OSError as error:
        raise Refused("unreachable", *nobody(host, port, error)) from None
    except http.client.HTTPException:
        raise Refused("stranger", *stranger(host, port)) from None
    finally:
        connection.close()
    if answer.status == 401:
        raise Refused(
            "token",
            f"The head at {host} doesn't know this token.",
            "copy .drydock/PROJECT/secrets/ray_token from the head's clone anew, and name it: TOKEN_FILE=",
        )
    if answer.status != 200 or not hmac.compare_digest(answer.headers.get(PROOF, ""), proof(token, nonce, data)):
        raise Refused("stranger", *stranger(host, port))
    return json.loads(data)


def nobody(host: str, port: int, error: OSError) -> tuple[str, str]:
    """What is wrong where no connection comes about, and the mend."""
    if isinstance(error, ConnectionRefusedError):
        return (
            f"Nobody listens at {host}:{port}: the head isn't up, or isn't shared, or has another RAY_PORT.",
            "make up SHARE=ADDRESS   # on the head; it prints the command for this machine",
        )
    reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
    return (
        f"{host}:{port} can't be reached ({reason}): a firewall between, another network, or a wrong address.",
        "make ports   # what a firewall has to let through",
    )


def stranger(host: str, port: int) -> tuple[str, str]:
    """What is wrong where somebody else answers."""
    return (
        f"What answers at {host}:{port} is no head of Drydock that knows this token.",
        "HEAD=HOST:PORT as `make up SHARE=…` prints it on the head",
    )


def differences(head: Facts, own: Facts) -> list[str]:
    """How a node differs from its head, in words, what matters most first."""
    found = [
        f"{name} {mine or 'none'} here, {theirs or 'none'} on the head"
        for name, mine, theirs in (("Python", own.python, head.python), ("Ray", own.ray, head.ray))
        if mine != theirs
    ]
    if own.image.rpartition(":")[2] != head.image.rpartition(":")[2]:
        found.append(f"image {own.image or 'unknown'} here, {head.image or 'unknown'} on the head")
    names = sorted(
        name for name in {*head.packages, *own.packages} - {"ray"} if head.packages.get(name) != own.packages.get(name)
    )
    shown = [f"{name} {own.packages.get(name, 'none')} / {head.packages.get(name, 'none')}" for name in names[:5]]
    if names:
        found.append(
            f"{len(names)} Python package(s), here / on the head: {', '.join(shown)}{', …' if names[5:] else ''}"
        )
    return found


def same_version(head: Facts, own: Facts) -> None:
    """Refuse a node that is made of something else: Ray would refuse it later, or tasks would fail on it alone.

    Raises:
        Refused: and how it differs.
    """
    if found := differences(head, own):
        raise Refused(
            "version", f"This node is of another version than its head: {'; '.join(found)}.", carry(head.image)
        )


def carry(image: str) -> str:
    """How the head's own image gets to another machine."""
    return (
        "check the same commit of Drydock out here, with the same WORKSPACE, REQUIREMENTS and FRAMEWORK; or carry the "
        f"image:\ndocker save {image or 'IMAGE'} | ssh THIS-MACHINE docker load   # on the head"
    )


def skew(head: Facts, asked: float, answered: float) -> float:
    """By how many seconds this clock is ahead of the head's, as far as the way there lets one know."""
    early, late = asked - head.time, answered - head.time
    return 0.0 if early <= 0 <= late else early if early > 0 else late


def clock_fit(seconds: float) -> str:
    """Something to tell about clocks that differ, "" where they don't.

    Raises:
        Refused: they differ so much that times of two machines can't be held against each other.
    """
    if abs(seconds) < SKEW_TOLD:
        return ""
    what = f"This machine's clock is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} the head's"
    if abs(seconds) > SKEW_REFUSED:
        raise Refused("clock", f"{what}.", "sudo timedatectl set-ntp true   # on both machines")
    return f"{what}; times in logs and dumps of the two can't be compared that closely."


def ports_open(closed: Sequence[int], direction: str) -> None:
    """Refuse a node that could join, and then hang.

    Raises:
        Refused: and which ports.
    """
    if closed:
        raise Refused(
            "ports",
            f"Closed {direction}: {', '.join(map(str, sorted(closed)))}. A firewall stands between the machines.",
            "make ports   # everything that it has to let through, in both directions",
        )
