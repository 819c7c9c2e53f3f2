#!/usr/bin/env bash
# Sees to it that a Chromium is here, in which the tests of reports open their pages. Where it can't be had the tests are skipped, and say so.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/common.sh
. "$here/lib/common.sh"

# The same names as in tests/support/chromium.py.
for name in chromium chromium-browser google-chrome; do
    ! have "$name" || exit 0
done

without() {
    say "· $1; tests of reports in a browser are skipped"
    exit 0
}

have apt-get || without "there is no Chromium, and no apt-get to install it with"
# Ubuntu's package of that name is only a door to a snap, which doesn't work in containers.
if [ -r /etc/os-release ] && ! (. /etc/os-release && [ "${ID:-}" = debian ]); then without "there is no Chromium"; fi
say "The tests of reports want Chromium. Drydock will run as root:"
say "  apt-get install --no-install-recommends chromium"
consent || without "Chromium was not installed"
as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null || without "apt-get update failed"
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null ||
    without "Chromium could not be installed"
