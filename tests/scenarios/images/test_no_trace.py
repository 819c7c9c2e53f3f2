"""What leads a build to its packages (names, passwords, certificates) is in no layer, history, log or cache record.

Every place of this machine's configuration carries a canary, and everything is really fetched by means of it.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.stack.images.apt_config import read_apt_config
from harness.stack.images.ledger import read_records
from tests.scenarios.images.conftest import Workshop
from tests.support.harness import CLONE
from tests.support.package_servers import NAME, PackageServer, locked, serving, write_wheel

# Images, cache records and the base are shared by all that build.
pytestmark = pytest.mark.alone

CANARY = "c4n4ry-5f1e"
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBnDCCAUGgAwIBAgIUINPrMj1G8c+Lk3bJRHv/xLISRKUwCgYIKoZIzj0EAwIw
IzEhMB8GA1UEAwwYZHJ5ZG9jayBjYW5hcnkgYXV0aG9yaXR5MB4XDTI2MTEzMDA3
MjIxNloXDTQ2MTEyNTA3MjIxNlowIzEhMB8GA1UEAwwYZHJ5ZG9jayBjYW5hcnkg
YXV0aG9yaXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE3UQ9B6fiPF6CIevz
4TafIwnsG/co+ZqRmCaLbRFoHEsjcjxwNcOW6H7tvA8CUJ819o1VUDgv+zUU0SAp
P3RH+KNTMFEwHQYDVR0OBBYEFJRTvHvUWftijLqdlFVYzW1dbinoMB8GA1UdIwQY
MBaAFJRTvHvUWftijLqdlFVYzW1dbinoMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZI
zj0EAwIDSQAwRgIhAMnfrilBgAAveB0tSuSK+4DON0tNy6E4ekYU1qw+ytx7AiEA
583KgjIYsi8cW5VpkQFXFHW2cA/JBP0EYamQ8Yx1br4=
-----END CERTIFICATE-----
"""
# One line of it stands for the whole.
CERTIFICATE_LINE = CERTIFICATE.splitlines()[3]
LEAK = """\
ARG BASE
FROM ${BASE}
RUN --mount=type=secret,id=pip_conf cp /run/secrets/pip_conf /usr/share/leaked
"""


@pytest.fixture
def server(tmp_path: Path) -> PackageServer:
    """An index with a wheel of our own and uv, and a Debian mirror; all of it behind a password."""
    apt = read_apt_config(None)
    if apt.archive is None:
        pytest.skip("this machine knows no Debian mirror that could be handed on to")
    tools = CLONE / "docker/locks/tools.txt"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-r", str(tools), "-d", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    wheels = [write_wheel(tmp_path, "smalllib", "1", "ANSWER = 42\n"), *tmp_path.glob("uv-*.whl")]
    return PackageServer(CANARY, wheels, apt.archive, apt.security)


@pytest.fixture
def port(server: PackageServer) -> Iterator[int]:
    with serving(server) as port:
        yield port


@pytest.fixture
def planted(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Canaries in every place that is looked at; gives the Debian mirror's address."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text(f"machine 127.0.0.1 login {NAME} password {CANARY}\n")
    (home / ".netrc").chmod(0o600)
    (home / "pip.conf").write_text(f"[global]\nindex-url = http://{NAME}:{CANARY}@127.0.0.1:{port}/simple\n")
    (home / "apt.conf").write_text(
        f'Acquire::http::Proxy::nowhere.invalid "http://{NAME}:{CANARY}@127.0.0.1:{port}";\n'
    )
    (home / "ca.pem").write_text(f"# {CANARY}\n{CERTIFICATE}")
    monkeypatch.setenv("DOCKER_CONFIG", str(Path("~/.docker").expanduser()))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(home / "pip.conf"))
    monkeypatch.setenv("APT_CONFIG", str(home / "apt.conf"))
    for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(home / "ca.pem"))
    for name in ("http_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://{NAME}:{CANARY}@127.0.0.1:{port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    return f"http://{NAME}:{CANARY}@127.0.0.1:{port}/debian"


def test_an_image_built_by_means_of_canaries_holds_none(
    workshop: Workshop, server: PackageServer, planted: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (workshop.clone / "docker/locks/small.txt").write_text(locked(server.wheels[0]))
    image = workshop.build(debian_mirror=planted)

    # Everything came from the server that wants the canary …
    assert any("hello" in path for path in server.asked)
    assert any(path.endswith(server.wheels[0].name) for path in server.asked)
    assert any("/uv-" in path for path in server.asked)
    # … and it works …
    script = "hello --greeting=hi && /opt/venv/bin/python -c 'import smalllib; print(smalllib.ANSWER)'"
    assert workshop.client.containers.run(image.id, ["sh", "-c", script], remove=True).split() == [b"hi", b"42"]
    # … and is not to be found again.
    assert traces(workshop.client, image.id) == []
    logs = [path.read_text() for path in (workshop.settings.state_dir / "builds").glob("*.log")]
    assert logs
    assert [text for text in logs if CANARY in text] == []
    assert [record for record in read_records(workshop.client) if CANARY in record.description] == []
    shown = capfd.readouterr()
    assert CANARY not in shown.out + shown.err


def test_the_search_finds_a_canary_that_is_there(workshop: Workshop, server: PackageServer, planted: str) -> None:
    (workshop.clone / "docker/locks/small.txt").write_text(locked(server.wheels[0]))
    (workshop.clone / "docker/small/Dockerfile").write_text(LEAK)
    image = workshop.build(debian_mirror=planted)
    assert traces(workshop.client, image.id) == ["layer.tar"]


def traces(client: Any, image_id: str) -> list[str]:
    """Parts of a saved image (manifest, configuration with history, every layer) in which a canary is found."""
    found = []
    saved = io.BytesIO(b"".join(client.images.get(image_id).save(named=True)))
    with tarfile.open(fileobj=saved) as archive:
        for member in archive.getmembers():
            part = archive.extractfile(member) if member.isfile() else None
            data = part.read() if part else b""
            if any(text.encode() in data for text in (CANARY, CERTIFICATE_LINE)):
                found.append(member.name.rpartition("/")[2])
    return found
