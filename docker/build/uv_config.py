"""Writes uv's configuration from the pip.conf that a build is given (harness/stack/images/pip_config.py writes that).

uv reads no pip.conf. Only what says where packages are is carried over; hashes say which ones.
"""

import configparser
import json
import sys
from urllib.parse import urlsplit


def main() -> None:
    """Print the configuration for the pip.conf named on the command line, which may be absent."""
    parser = configparser.RawConfigParser()
    parser.read(sys.argv[1])
    options = dict(parser["global"]) if parser.has_section("global") else {}
    index = options.get("index-url", "").split()
    lines = [f"index-url = {json.dumps(index[0])}"] if index else []
    for ours, theirs in (("extra-index-url", "extra-index-url"), ("find-links", "find-links")):
        if words := options.get(ours, "").split():
            lines.append(f"{theirs} = {json.dumps(words)}")
    # As pip does it: a version may come from any of the indexes. The lock's hashes make that safe.
    pip = ['index-strategy = "unsafe-best-match"', *lines]
    hosts = [_host(word) for word in options.get("trusted-host", "").split()]
    top = [f"allow-insecure-host = {json.dumps(hosts)}"] if hosts else []
    if options.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        pip.append("no-index = true")
    print("\n".join([*top, "[pip]", *pip]))


def _host(word: str) -> str:
    """pip takes a host or a host with its port; so does uv."""
    return urlsplit(f"//{word}").netloc


main()
