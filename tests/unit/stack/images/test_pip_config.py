"""What of pip's configuration goes into a build, and what stays here."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.stack.images import pip_config

LISTING = """\
:env:.cert='/etc/ca.pem'
:env:.default-timeout='180'
global.extra-index-url='file:///srv/simple http://mirror.lan/simple'
global.index-url='https://me:word@index.lan/simple'
global.find-links='/srv/wheels https://pages.lan/wheels'
global.timeout='5'
install.trusted-host='index.lan\\nmirror.lan'
global.constraint='/etc/constraints.txt'
freeze.all='true'
"""


def test_the_environment_wins_over_files_and_only_remote_places_are_passed_on() -> None:
    config = pip_config.parse_pip_config(LISTING)
    assert config.first("cert") == "/etc/ca.pem"
    assert config.constraints() == [Path("/etc/constraints.txt")]
    assert config.folders() == [Path("/srv/wheels")]
    assert config.hosts() == {"index.lan", "mirror.lan", "pages.lan"}
    assert pip_config.for_build(config, with_certificates=True).splitlines() == [
        "[global]",
        "index-url = https://me:word@index.lan/simple",
        "extra-index-url = http://mirror.lan/simple",
        "trusted-host = index.lan",
        "    mirror.lan",
        "find-links = https://pages.lan/wheels",
        "timeout = 180",
        "cert = /run/secrets/ca_bundle",
    ]


def test_nothing_to_tell_is_no_file() -> None:
    assert pip_config.for_build(pip_config.parse_pip_config(""), with_certificates=False) == ""


def test_a_find_links_folder_may_be_a_file_url() -> None:
    config = pip_config.parse_pip_config("global.find-links='file:///srv/my%20wheels'")
    assert config.folders() == [Path("/srv/my wheels")]


def test_only_logins_of_the_indexes_are_taken_from_netrc(tmp_path: Path) -> None:
    path = tmp_path / "netrc"
    path.write_text("machine index.lan login me password word\nmachine bank.lan login me password secret\n")
    path.chmod(0o600)
    assert pip_config.netrc_for({"index.lan", "other.lan"}, path) == "machine index.lan login me password word\n"


def test_wheels_are_taken_by_the_hash_that_a_lock_names(tmp_path: Path) -> None:
    good, changed, unknown = (tmp_path / f"{name}-1-py3-none-any.whl" for name in ("My_Lib", "other", "stranger"))
    for path in (good, changed, unknown):
        path.write_bytes(path.name.encode())
    digest = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (good, changed, unknown)}
    lock = tmp_path / "lock.txt"
    lock.write_text(f"my-lib==1 \\\n    --hash=sha256:{digest[good]}\nother==1 \\\n    --hash=sha256:{'0' * 64}\n")
    assert pip_config.locked_wheels([tmp_path, tmp_path / "absent"], [lock]) == [good]
