#!/usr/bin/env bash
# Installs what is missing of Docker Engine, Compose v2 and Buildx (and mmdebstrap on request) from the distribution's own packages.
# Debian 12 and 13, Ubuntu 22.04 and 24.04; elsewhere it says what to install. Says what it will do and asks first (see lib/common.sh).
#
# usage: install-docker.sh [--with-mmdebstrap] [--dry-run] [--assume-bare]
#   --with-mmdebstrap  also install mmdebstrap, with which the base image is made where no image registry can be reached
#   --assume-bare      don't look at what is installed: plan for a machine that has nothing
#   --dry-run          print the plan, one command a line, and change nothing
# OS_RELEASE=FILE is read instead of /etc/os-release.
# Exit codes: 0 all is there (now), 1 an installation failed, 2 wrong usage, 3 this machine has to be set up by hand (commands are printed).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/common.sh
. "$here/lib/common.sh"

readonly oldest_compose=2.20
plan=()    # the commands, as root would type them
plugins=() # Debian 12: packages that install-docker-plugins.sh has to fetch

main() {
    local with_mmdebstrap="" dry_run="" bare="" argument
    for argument in "$@"; do
        case $argument in
        --with-mmdebstrap) with_mmdebstrap=1 ;;
        --dry-run) dry_run=1 ;;
        --assume-bare) bare=1 ;;
        *) die 2 "Unknown argument: $argument" "" "scripts/install-docker.sh [--with-mmdebstrap] [--dry-run] [--assume-bare]" ;;
        esac
    done

    local missing=()
    [ -z "$bare" ] && engine_is_there || missing+=(engine)
    [ -z "$bare" ] && compose_is_there || missing+=(compose)
    [ -z "$bare" ] && buildx_is_there || missing+=(buildx)
    [ -z "$with_mmdebstrap" ] || { [ -z "$bare" ] && have mmdebstrap; } || missing+=(mmdebstrap)
    [ ${#missing[@]} -gt 0 ] || return 0

    make_plan "${missing[@]}"
    if [ -n "$dry_run" ]; then
        printf '%s\n' "${plan[@]}"
        return 0
    fi
    say "Missing on this machine: ${missing[*]}. Drydock will run as root:"
    local command
    for command in "${plan[@]}"; do say "  $command"; done
    consent || die 3 "Nothing was installed: ${missing[*]} still missing." "Drydock needs Docker Engine, Compose $oldest_compose and Buildx." \
        "${plan[@]/#/$(is_root || echo 'sudo ')}"
    for command in "${plan[@]}"; do run_planned "$command"; done

    hash -r
    { engine_is_there && compose_is_there && buildx_is_there; } ||
        die 1 "The packages are installed, but Docker's engine, Compose and Buildx were not all found." "" "docker compose version; docker buildx version"
}

# A client alone is not an engine: the daemon's program must be here, or an engine (Docker Desktop, a remote one) must answer.
engine_is_there() {
    local path
    for path in $(type -P dockerd || true) /usr/bin/dockerd /usr/sbin/dockerd /usr/local/bin/dockerd /usr/local/sbin/dockerd /snap/bin/dockerd; do
        [ ! -x "$path" ] || { have docker && return 0; }
    done
    [ -z "${DOCKER_HOST:-}" ] || { have docker && return 0; } # the user's own engine, elsewhere: never install another beside it
    have docker && ask_engine >/dev/null
}

compose_is_there() {
    local version
    version=$(docker compose version --short 2>/dev/null) && version_at_least "$version" "$oldest_compose"
}

buildx_is_there() { docker buildx version >/dev/null 2>&1; }

# Which packages of which distribution provide the missing parts. Sets `plan`; ends the script where none is known.
make_plan() {
    local id="" release="" name="" file=${OS_RELEASE:-/etc/os-release} part packages=()
    if [ -r "$file" ]; then
        # shellcheck source=/dev/null
        id=$(. "$file" && echo "${ID:-}") release=$(. "$file" && echo "${VERSION_ID:-}") name=$(. "$file" && echo "${PRETTY_NAME:-}")
    fi
    for part in "$@"; do
        case "$id $release/$part" in
        "debian 12/engine") packages+=(docker.io ca-certificates) ;;
        "debian 13/engine") packages+=(docker.io docker-cli ca-certificates) ;;
        "ubuntu 22.04/engine" | "ubuntu 24.04/engine") packages+=(docker.io ca-certificates) ;;
        "debian 12/compose") plugins+=(docker-compose) ;;
        "debian 12/buildx") plugins+=(docker-buildx) ;;
        "debian 13/compose") packages+=("$(plugin_of_docker_ce docker-compose-plugin || echo docker-compose)") ;;
        "debian 13/buildx") packages+=("$(plugin_of_docker_ce docker-buildx-plugin || echo docker-buildx)") ;;
        "ubuntu 22.04/compose" | "ubuntu 24.04/compose") packages+=("$(plugin_of_docker_ce docker-compose-plugin || echo docker-compose-v2)") ;;
        "ubuntu 22.04/buildx" | "ubuntu 24.04/buildx") packages+=("$(plugin_of_docker_ce docker-buildx-plugin || echo docker-buildx)") ;;
        "debian 12/mmdebstrap" | "debian 13/mmdebstrap") packages+=(mmdebstrap) ;;
        "ubuntu 22.04/mmdebstrap" | "ubuntu 24.04/mmdebstrap") packages+=(mmdebstrap debian-archive-keyring) ;; # the base image is Debian
        *) by_hand "$(os_name "$name")" "$@" ;;
        esac
    done
    # What docker.io only recommends and Drydock needs: certificates, to pull images; and where the kernel enforces AppArmor its parser,
    # without which no container starts.
    if [[ " ${packages[*]-} " == *" docker.io "* ]] && [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" = Y ]; then
        packages+=(apparmor)
    fi
    plan=("apt-get update")
    [ ${#packages[@]} -eq 0 ] || plan+=("apt-get install --yes --no-install-recommends ${packages[*]}")
    [ ${#plugins[@]} -eq 0 ] || plan+=("$(printf %q "$here/install-docker-plugins.sh") ${plugins[*]}")
}

# Docker's own packages (docker-ce) have their own plugin packages; the distribution's would clash with them.
plugin_of_docker_ce() {
    have dpkg-query && dpkg-query --show --showformat '${Status}' docker-ce-cli 2>/dev/null | grep -q ' installed$' && echo "$1"
}

os_name() {
    if [ -n "$1" ]; then echo "$1"; elif [ "$(uname -s)" = Darwin ]; then echo "macOS"; else uname -s; fi
}

by_hand() {
    local os=$1
    shift
    local mend="install Docker Engine 20.10 or newer with the plugins compose ($oldest_compose or newer) and buildx, then repeat"
    case $os in
    macOS*) mend="install Docker Desktop (or colima with docker, docker-compose and docker-buildx), start it, then repeat" ;;
    Fedora*) mend="sudo dnf install moby-engine docker-compose docker-buildx" ;;
    Arch* | Manjaro*) mend="sudo pacman -S docker docker-compose docker-buildx" ;;
    Alpine*) mend="sudo apk add docker docker-cli-compose docker-cli-buildx" ;;
    openSUSE*) mend="sudo zypper install docker docker-compose docker-buildx" ;;
    esac
    die 3 "Missing on this machine: $*. Drydock knows no packages for $os." "Nothing was installed." "$mend"
}

run_planned() {
    local command=$1
    say "+ $command"
    # shellcheck disable=SC2086 # an apt-get command is a list of plain words
    case $command in
    *install-docker-plugins.sh*)
        as_root "$here/install-docker-plugins.sh" "${plugins[@]}" || exit $? # it has said what is wrong
        ;;
    "apt-get update")
        # One source out of order, perhaps not even the distribution's, must not be in the way: the next command tells whether it matters.
        as_root env DEBIAN_FRONTEND=noninteractive $command -qq || say "  apt-get update failed; going on with the package lists that are here"
        ;;
    *)
        # Freshly booted machines upgrade themselves; wait for that instead of failing.
        as_root env DEBIAN_FRONTEND=noninteractive $command -qq -o DPkg::Lock::Timeout=180 >/dev/null ||
            die 1 "Failed: $command" "Docker is not (fully) installed." "run the command by hand and read its output"
        ;;
    esac
}

main "$@"
