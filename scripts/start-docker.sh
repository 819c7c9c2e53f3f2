#!/usr/bin/env bash
# Starts the Docker daemon, with or without systemd, also after it died uncleanly, and waits until it answers. Does nothing when it does.
#
# usage: start-docker.sh
# Without systemd the daemon is detached from the calling shell; its log is /var/log/dockerd.log (DRYDOCK_DOCKERD_LOG).
# Exit codes: 0 the engine answers, 1 it does not in spite of everything, 3 this machine has to be mended by hand (commands are printed).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/common.sh
. "$here/lib/common.sh"

readonly log=${DRYDOCK_DOCKERD_LOG:-/var/log/dockerd.log}
readonly patience=60 # seconds
# In tests only, other things stand in for /run and for the name of process 1.
readonly run=${DRYDOCK_RUN:-/run}
readonly init=${DRYDOCK_INIT:-$(cat /proc/1/comm 2>/dev/null || true)}

main() {
    have docker || die 3 "The command docker is not installed." "" "scripts/install-docker.sh"
    local answer
    ! answer=$(ask_engine) || return 0
    explain_what_root_cannot_mend "$answer"

    if ! is_root; then
        say "The Docker daemon does not run. Drydock will start it as root:"
        say "  $(printf %q "$here/start-docker.sh")"
        consent || die 3 "The Docker daemon was not started." "No container can run." "sudo $(printf %q "$here/start-docker.sh")"
        as_root "$here/start-docker.sh" || exit $?
        ! answer=$(ask_engine) || return 0
        explain_what_root_cannot_mend "$answer"
        die 1 "The Docker daemon runs, but does not answer $(id -un): $answer" "No container can run." "docker info"
    fi

    # One at a time: a second caller waits here and then finds the engine answering.
    exec 9>"$run/drydock-start-docker.lock"
    flock 9
    ! answer=$(ask_engine) || return 0
    local pid
    if pid=$(pid_of dockerd "$run/docker.pid"); then
        refuse_stopped "$pid"
        say "A Docker daemon runs already (process $pid); waiting for it"
    else
        clear_leftovers
        if systemd_runs; then start_with_systemd; else start_by_hand; fi
    fi
    await_engine
}

explain_what_root_cannot_mend() {
    local answer=$1
    case $answer in
    *"permission denied"*)
        die 3 "The Docker daemon runs, but $(id -un) may not use its socket." "No container can be started by this user." \
            "sudo usermod -aG docker $(id -un) && newgrp docker"
        ;;
    esac
    local host=${DOCKER_HOST:-}
    [ -n "$host" ] || host=$(docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null || true)
    case $host in
    '' | unix:///var/run/docker.sock | unix:///run/docker.sock) ;;
    *)
        die 3 "The Docker engine at $host does not answer." "That address comes from DOCKER_HOST or the Docker context, so Drydock does not start a daemon here." \
            "start that engine, or: unset DOCKER_HOST; docker context use default"
        ;;
    esac
    [ "$(uname -s)" = Linux ] || die 3 "Docker does not answer." "" "start Docker Desktop (or: colima start), then repeat"
    find_dockerd >/dev/null || die 3 "There is a docker client, but no daemon (dockerd)." "No container can run." "scripts/install-docker.sh"
}

find_dockerd() { PATH="$PATH:/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/snap/bin" type -P dockerd; }

systemd_runs() { [ -d "$run/systemd/system" ] && [ "$init" = systemd ]; }

start_with_systemd() {
    say "Starting the Docker daemon (systemd)"
    # After several quick failures systemd refuses further starts until told to forget them.
    systemctl reset-failed docker.service docker.socket 2>/dev/null || true
    if ! systemctl start docker.service; then
        say_log
        die 1 "systemd could not start docker.service (last lines of its journal above)." "No container can run." \
            "mend what the journal names, then: scripts/start-docker.sh"
    fi
}

start_by_hand() {
    say "Starting the Docker daemon (log: $log)"
    # Its own session and no inherited descriptors (9 is the lock): it outlives this script, make and the terminal, and holds nothing of theirs.
    setsid nohup "$(find_dockerd)" </dev/null >>"$log" 2>&1 9>&- &
    started=$!
}

# Called only while no dockerd lives. What a daemon that was killed left behind, and what would keep the next one from starting: pid files whose number now belongs to nobody
# or to another program, and sockets on which nobody listens (dockerd would wait for a containerd that isn't there).
clear_leftovers() {
    local file
    remove_stale "$run/docker.pid"
    for file in "$run/docker/containerd/containerd.pid" "$run/docker/containerd/docker-containerd.pid"; do
        pid_of containerd "$file" >/dev/null || remove_stale "$file"
    done
    for file in "$run/docker.sock" "$run/containerd/containerd.sock" "$run/docker/containerd/containerd.sock" "$run/docker/containerd/containerd-debug.sock"; do
        listened_on "$file" || remove_stale "$file"
    done
}

remove_stale() {
    [ -e "$1" ] || return 0
    say "  removing $1, left behind by a process that is gone"
    rm -f "$1"
}

# pid_of PROGRAM FILE: the number in a pid file, if it is a living process of that program.
pid_of() {
    local program=$1 file=$2 pid name
    read -r pid 2>/dev/null <"$file" || [ -n "${pid:-}" ] || return 1
    case $pid in '' | *[!0-9]*) return 1 ;; esac
    read -r name 2>/dev/null <"/proc/$pid/comm" || return 1
    # A zombie has ended, whatever its parent makes of it.
    [[ $name == *"$program" ]] && [ "$(state_of "$pid")" != Z ] && echo "$pid"
}

refuse_stopped() {
    case $(state_of "$1") in
    T | t) die 1 "The Docker daemon is stopped (process $1, state T)." "It answers nobody until it is continued." "sudo kill -CONT $1" ;;
    esac
}

state_of() { sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null || true; }

# Is there a listening socket at this path? The kernel's table names it by the path it was bound with, /run or /var/run.
listened_on() {
    awk -v path="$1" '$4 == "00010000" && ($8 == path || $8 == "/var" path) { found = 1 } END { exit !found }' /proc/net/unix
}

await_engine() {
    local answer="" deadline=$((SECONDS + patience))
    while [ "$SECONDS" -lt "$deadline" ]; do
        if answer=$(ask_engine); then
            say "✓ Docker $answer answers"
            return 0
        fi
        if [ -n "${started:-}" ] && ! kill -0 "$started" 2>/dev/null; then
            say_log
            die 1 "The Docker daemon ended right after its start (last lines of its log above)." "No container can run." "mend what the log names, then: scripts/start-docker.sh"
        fi
        sleep 0.2
    done
    say_log
    local pid
    ! pid=$(pid_of dockerd "$run/docker.pid") || refuse_stopped "$pid"
    die 1 "The Docker daemon did not answer within $patience s: $answer" "The last lines of its log are above." "mend what the log names, then: scripts/start-docker.sh"
}

say_log() {
    say "Last lines of the daemon's log:"
    if systemd_runs; then journalctl --unit docker.service --no-pager --lines 15 >&2 || true; else tail -n 15 "$log" >&2 2>/dev/null || true; fi
}

main "$@"
