#!/usr/bin/env bash
# `make load FROM=folder`: makes .venv from the saved wheels, without asking any index, and hands over to the harness.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Not every shell expands `FROM=~/x` where it is an argument.
case ${FROM:-} in \~/*) FROM=$HOME/${FROM#\~/} ;; esac
if [ -d "${FROM:-}/wheels" ]; then
    wheels=$(cd "$FROM/wheels" && pwd -P)
    # pip splits the variable at blanks; in an address they can be written otherwise.
    wheels=${wheels//%/%25}
    export PIP_FIND_LINKS="file://${wheels// /%20}" PIP_NO_INDEX=1
fi
scripts/bootstrap.sh
scripts/ensure-docker.sh
exec .venv/bin/harness load
