#!/usr/bin/env bash
# Holds every lock of docker/locks against the known vulnerabilities of its packages, as OSV (osv.dev) lists them. Where
# that can't be asked, it says so and is no failure: a closed network has no such source.
#
#   scripts/audit.sh            all locks
#   scripts/audit.sh host dev   only these
#   OSV_URL=http://mirror/v1/query scripts/audit.sh     another server with OSV's interface
#
# What is known and doesn't concern us is listed in docker/locks/audit.ignore, each with its reason.
# Exit codes: 0 nothing was found, or nothing could be asked; 1 something was found, or the audit itself failed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly url=${OSV_URL:-https://api.osv.dev/v1/query} ignored=docker/locks/audit.ignore
# The fallback is for a .venv that was put together by hand.
python=.venv/bin/python
[ -x "$python" ] || python=python3

# One question that every such server can answer: proxies and certificates are taken from the environment.
if ! reason=$("$python" - "$url" 2>&1 <<'END'
import sys, urllib.request
question = urllib.request.Request(sys.argv[1], b'{"package": {"name": "pip", "ecosystem": "PyPI"}, "version": "26.3"}')
try:
    urllib.request.urlopen(question, timeout=10).read(1)
except (OSError, ValueError) as error:
    sys.exit(str(getattr(error, "reason", error)))
END
); then
    echo "· not audited: $url can't be asked ($reason)"
    exit 0
fi

tool=.drydock/audit-$(sha256sum docker/locks/audit.txt | cut -c 1-12)
if [ ! -d "$tool" ]; then
    rm -rf .drydock/audit-* && mkdir -p .drydock
    "$python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --target "$tool.part" \
        -r docker/locks/audit.txt
    mv "$tool.part" "$tool"
fi

locks=("$@")
if [ ${#locks[@]} -eq 0 ]; then for file in docker/locks/*.txt; do locks+=("$(basename "$file" .txt)"); done; fi
options=()
while read -r id reason; do
    case $id in '' | '#'*) continue ;; esac
    [ -n "$reason" ] || { echo "audit.sh: $ignored gives no reason for $id" >&2; exit 1; }
    options+=(--ignore-vuln "$id")
done <"$ignored"
files=()
for name in "${locks[@]}"; do files+=(-r "docker/locks/$name.txt"); done
PYTHONPATH=$tool "$python" -m pip_audit --vulnerability-service osv --osv-url "$url" --no-deps --disable-pip \
    --progress-spinner off --desc off --aliases on "${options[@]}" "${files[@]}"
