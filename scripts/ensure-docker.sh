#!/usr/bin/env bash
# Sees to it that a Docker engine, Compose v2 and Buildx are here and answer; takes well under 0.1 s when they do. `make up` calls it first.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/common.sh
. "$here/lib/common.sh"

# Newer than a plugin's file: install-docker.sh has looked at that plugin (asking each for its version costs 0.1 s a call).
readonly looked_at="$here/../.drydock/docker-looked-at"

plugin_looked_at() {
    local folder
    for folder in "${DOCKER_CONFIG:-$HOME/.docker}" /usr/local/lib/docker /usr/local/libexec/docker /usr/lib/docker /usr/libexec/docker; do
        [ ! -x "$folder/cli-plugins/$1" ] || { [ "$looked_at" -nt "$folder/cli-plugins/$1" ] && return 0; }
    done
    return 1
}

if ! { plugin_looked_at docker-compose && plugin_looked_at docker-buildx; }; then
    "$here/install-docker.sh"
    mkdir -p "${looked_at%/*}" && : >"$looked_at"
fi
if ! ask_engine >/dev/null 2>&1; then "$here/start-docker.sh"; fi
