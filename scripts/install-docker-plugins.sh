#!/usr/bin/env bash
# Installs Docker CLI plugins (docker-compose, docker-buildx) on Debian 12 from packages of Debian 13, pinned by version and sha256 in
# docker-plugins.lock. Runs as root. The packages come from the mirror that this machine's own apt sources name, through an apt
# configuration in a temporary folder: nothing foreign stays in the system's sources, lists or caches.
#
# usage: install-docker-plugins.sh PACKAGE...
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/common.sh
. "$here/lib/common.sh"

readonly lock="$here/docker-plugins.lock"
readonly newer_release=trixie
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The URI of the first source that serves this release's "main" component, as apt itself understands its sources.
own_mirror() {
    local codename=$1
    apt-get indextargets --format "\$(CODENAME) \$(COMPONENT) \$(REPO_URI)" 'Created-By: Packages' |
        awk -v codename="$codename" '$1 == codename && $2 == "main" { print $3; exit }'
}

main() {
    is_root || die 3 "install-docker-plugins.sh must run as root." "Nothing was changed." "sudo scripts/install-docker-plugins.sh $*"
    local codename architecture mirror
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    architecture=$(dpkg --print-architecture)
    mirror=$(own_mirror "$codename")
    [ -n "$mirror" ] || die 3 "No apt source of this machine serves $codename/main (or apt-get update never ran)." \
        "The Docker plugins have no mirror to come from." "apt-get update"

    # Not local: the trap runs after this function has ended.
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    chmod -R a+rX "$folder" # apt downloads as the user _apt
    printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$newer_release" >"$folder/sources.list"
    local apt_options=(
        -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache"
        -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
        -o APT::Update::Post-Invoke-Success::= -o APT::Sandbox::User=root -o Acquire::Languages=none
    )
    say "  reading the package list of $newer_release from this machine's own mirror"
    apt-get "${apt_options[@]}" -qq update || die 3 "The mirror does not serve $newer_release ($mirror)." \
        "Compose v2 and Buildx cannot be fetched." "install the Docker plugins 'compose' (2.20 or newer) and 'buildx' by hand, then repeat"

    local package version sum files=()
    for package in "$@"; do
        read -r version sum < <(awk -v p="$package" -v a="$architecture" '$1 == p && $3 == a { print $2, $4 }' "$lock") ||
            die 3 "$package is not pinned for $architecture in scripts/docker-plugins.lock." "It cannot be installed safely." \
                "install the Docker plugins 'compose' and 'buildx' by hand, then repeat"
        say "  fetching $package $version"
        (cd "$folder" && apt-get "${apt_options[@]}" -qq download "$package=$version") ||
            die 3 "The mirror no longer has $package $version." "What it has instead is not the pinned one, so it was not installed." \
                "update scripts/docker-plugins.lock, or install the Docker plugins 'compose' and 'buildx' by hand"
        local found=("$folder/$package"_*.deb)
        echo "$sum  ${found[0]}" | sha256sum --check --quiet - >&2 ||
            die 3 "$package $version has another sha256 than the pinned one." "It was not installed." "check the mirror in this machine's apt sources"
        files+=("${found[0]}")
    done
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends -o DPkg::Lock::Timeout=180 "${files[@]}" >/dev/null ||
        die 1 "The packages could not be installed: ${files[*]##*/}" "Compose v2 and Buildx are missing." "mend what apt-get names above, then repeat"
}

main "$@"
