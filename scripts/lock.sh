#!/usr/bin/env bash
# Locks the Python packages of the clone's .venv and of every image: docker/locks/NAME.in -> docker/locks/NAME.txt,
# with the hashes of every file, for every platform. Run it after a change to pyproject.toml or to a .in file.
#
#   scripts/lock.sh               all of them, keeping the versions that still fit
#   scripts/lock.sh dev host      only these
#   UPGRADE=1 scripts/lock.sh     to the newest versions
#
# A .in file can carry a line of uv options for itself:   # uv: --python-version 3.11
# No index, host name or path of this machine may get into a lock; the last step refuses one that does.
set -euo pipefail
cd "$(dirname "$0")/.."

uv_version=0.13.8
tool=.drydock/lock-tool

find_uv() {
    if command -v uv >/dev/null; then
        command -v uv
        return
    fi
    if [ ! -x "$tool/bin/uv" ]; then
        python3 -m venv "$tool"
        "$tool/bin/pip" install --quiet --disable-pip-version-check "uv==$uv_version"
    fi
    echo "$tool/bin/uv"
}

uv=$(find_uv)
# uv reads no pip configuration; an index that pip is told to use is meant for every Python tool of this host.
if [ -z "${UV_DEFAULT_INDEX:-}" ] && index=$(python3 -m pip config get global.index-url 2>/dev/null); then
    export UV_DEFAULT_INDEX=$index
fi
if [ -z "${UV_FIND_LINKS:-}" ]; then
    read -ra folders <<<"${PIP_FIND_LINKS:-$(python3 -m pip config get global.find-links 2>/dev/null | tr '\n' ' ')}"
    [ ${#folders[@]} -eq 0 ] || UV_FIND_LINKS=$(IFS=, && echo "${folders[*]}") && export UV_FIND_LINKS
fi

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for file in docker/locks/*.in; do names+=("$(basename "$file" .in)"); done
fi

for name in "${names[@]}"; do
    source=docker/locks/$name.in
    lock=docker/locks/$name.txt
    [ -f "$source" ] || { echo "lock.sh: no $source" >&2; exit 2; }
    read -ra options <<<"$(sed -n 's/^# uv: //p' "$source" | tr '\n' ' ')"
    [ -z "${UPGRADE:-}" ] || options+=(--upgrade)
    echo "locking $name"
    "$uv" pip compile --quiet --no-config --universal --generate-hashes --no-header --no-emit-index-url \
        --emit-build-options "${options[@]}" --output-file "$lock" "$source" >/dev/null
    if grep -nE '://|^--(index|extra|find|trusted)|(^|[^a-z.])/[a-z]+/' "$lock"; then
        echo "lock.sh: $lock names a place of this machine or an index (lines above); take it out of $source" >&2
        exit 1
    fi
done
