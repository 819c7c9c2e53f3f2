# shellcheck shell=bash
# What the set-up scripts share: how they speak, how they ask, how they become root. Sourced, never run; works in bash 3.2 (macOS).

say() { printf '%s\n' "$*" >&2; }

# die CODE WHAT CONSEQUENCE MEND...: three lines (more when there are several commands to run), then the exit code.
die() {
    local code=$1 what=$2 consequence=$3
    shift 3
    say "✗ $what"
    [ -z "$consequence" ] || say "  $consequence"
    local mend
    for mend in "$@"; do say "→ $mend"; done
    exit "$code"
}

on_terminal() { [ -t 0 ] && [ -t 2 ]; }

# DRYDOCK_EUID stands in for the real one in tests only.
is_root() { [ "${DRYDOCK_EUID:-$(id -u)}" = 0 ]; }

have() { command -v "$1" >/dev/null 2>&1; }

# The way to root: nothing for root, else sudo; fails when there is neither.
root_prefix() {
    if is_root; then
        echo ""
    elif have sudo; then
        # Without a terminal nobody can type a password: sudo must then answer at once.
        if on_terminal; then echo "sudo"; else echo "sudo -n"; fi
    else
        return 1
    fi
}

# consent: may the commands that were just announced be run? 0 yes, 1 no.
# A terminal is asked, unless DRYDOCK_YES=1; without a terminal only root goes on by itself.
consent() {
    root_prefix >/dev/null || return 1
    [ "${DRYDOCK_YES:-}" != 1 ] || return 0
    if on_terminal; then
        local answer
        printf 'Go on? [Y/n] ' >&2
        read -r answer || return 1
        case $answer in '' | y | Y | yes | Yes | YES | j | J) return 0 ;; *) return 1 ;; esac
    fi
    is_root
}

# as_root COMMAND...: runs it as root.
as_root() {
    local prefix
    prefix=$(root_prefix) || return 1
    # shellcheck disable=SC2086 # "sudo -n" is meant to be two words
    $prefix "$@"
}

# version_at_least HAVE WANT: compares the first two numbers (v2.26.1-4 against 2.20).
version_at_least() {
    local have_major have_minor want_major want_minor
    IFS=.- read -r have_major have_minor _ <<<"${1#v}"
    IFS=. read -r want_major want_minor <<<"$2"
    case "$have_major$have_minor" in '' | *[!0-9]*) return 1 ;; esac
    [ "$have_major" -gt "$want_major" ] || { [ "$have_major" -eq "$want_major" ] && [ "$have_minor" -ge "$want_minor" ]; }
}

# limited SECONDS COMMAND...: ends a command that takes longer, where the system has `timeout` (macOS does not).
limited() {
    local seconds=$1
    shift
    if have timeout; then timeout "$seconds" "$@"; else "$@"; fi
}

# The engine's version; or the client's complaint, and failure. A daemon that is stopped (SIGSTOP) accepts connections and never answers.
ask_engine() {
    local answer code=0
    answer=$(limited 10 docker version --format '{{.Server.Version}}' 2>&1) || code=$?
    [ "$code" != 124 ] || answer="no answer within 10 s"
    printf '%s\n' "$answer"
    return "$code"
}
