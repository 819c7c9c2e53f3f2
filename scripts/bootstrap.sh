#!/usr/bin/env bash
# Makes .venv in the clone, from nothing but Python >= 3.10: the packages of docker/locks/host.txt (hash-locked) and the harness itself, editable.
# An up-to-date .venv costs a few milliseconds, so every make verb calls this. A .venv that was left half-made, was moved, or belongs to
# another lock or another Python is made anew. pip is used as the user configured it (index, mirrors, certificates, find-links).
#
# usage: bootstrap.sh
# Exit codes: 0 .venv is there and right, 1 packages could not be installed, 3 this machine has to be set up by hand (commands are printed).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/common.sh
. scripts/lib/common.sh

readonly lock=docker/locks/host.txt
readonly stamp=.venv/drydock-stamp     # written last: what this .venv was made from
readonly marker=.venv/drydock-unfinished # written first: this .venv is ours
readonly log=.drydock/bootstrap.log

main() {
    ! up_to_date || return 0
    # Somebody else's clone is not for us to take: whoever owns it makes .venv, or we have a clone of our own.
    [ -w . ] || die 3 "The clone $PWD is not writable by $(id -un)." ".venv cannot be made or brought up to date in it." "$(unwritable_mend)"
    mkdir -p .drydock
    # Two makes at once: the second waits and finds the work done. (macOS has no flock; there two at once are left to chance.)
    exec 9>.drydock/bootstrap.lock
    ! have flock || flock 9
    ! up_to_date || return 0
    if [ -d .venv ] && [ ! -e "$stamp" ] && [ ! -e "$marker" ] && [ -n "$(ls -A .venv)" ]; then
        die 3 "There is a .venv here that Drydock did not make." "Drydock keeps its own packages in .venv and would have to replace it." \
            "mv .venv .venv.mine"
    fi

    find_python
    say "Making .venv with $python ($("$python" -c 'import platform; print(platform.python_version())')): a minute or two, this once"
    rm -rf .venv
    mkdir .venv
    : >"$marker"
    : >"$log"
    make_venv
    install_packages
    as_stamped >"$stamp"
    rm "$marker"
    # Root working in another user's clone: that user must be able to remake it.
    # Not what else lies in .drydock: the keys of a running stack belong to its containers' user.
    ! is_root || chown -R "$(owner_of .)" .venv
    ! is_root || chown "$(owner_of .)" .drydock .drydock/bootstrap.*
    say "✓ .venv is ready  ${SECONDS} s"
}

unwritable_mend() {
    if [ -e .venv ]; then
        echo "make venv   # by $(stat -c %U . 2>/dev/null || stat -f %Su .), whose clone it is; or work in a clone of your own"
    else
        echo "sudo chown -R $(id -un) $(printf %q "$PWD")   # if it is yours; else work in a clone of your own"
    fi
}

up_to_date() {
    [ -x .venv/bin/python ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(as_stamped)" ]
}

# What a .venv depends on: its packages, its interpreter, and its place (scripts in it carry absolute paths).
as_stamped() {
    { if have sha256sum; then sha256sum "$lock" pyproject.toml; else shasum -a 256 "$lock" pyproject.toml; fi; }
    readlink -f .venv/bin/python
    pwd -P
}

owner_of() { stat -c %u:%g "$1" 2>/dev/null || stat -f %u:%g "$1"; }

# The first Python that can make a complete .venv; else one that can with a borrowed pip; else one that the distribution completes.
# Sets `python` and `pip_from` (empty: the .venv brings its own pip; else the folder or wheel to run pip from).
find_python() {
    local candidate found=()
    pip_from=""
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if have "$candidate" && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then found+=("$candidate"); fi
    done
    [ ${#found[@]} -gt 0 ] || die 3 "No Python 3.10 or newer was found." "The harness is written in Python." "$(python_advice)"

    for python in "${found[@]}"; do
        ! "$python" -c 'import ensurepip, venv' 2>/dev/null || return 0
    done
    pip_from=$(find_pip "${found[@]}")
    for python in "${found[@]}"; do
        ! { [ -n "$pip_from" ] && "$python" -c 'import venv' 2>/dev/null; } || return 0
    done

    python=${found[0]} pip_from=""
    local package
    package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    have apt-get && [ "$("$python" -c 'import sys; print(sys.prefix)')" = /usr ] ||
        die 3 "$python has no working venv and pip." ".venv cannot be made." "$(python_advice)"
    say "$python cannot make a virtual environment. Drydock will run as root:"
    say "  apt-get update"
    say "  apt-get install --yes --no-install-recommends $package"
    consent || die 3 "Nothing was installed; $python still has no venv." ".venv cannot be made." \
        "$(is_root || echo 'sudo ')apt-get update && $(is_root || echo 'sudo ')apt-get install --yes --no-install-recommends $package"
    as_root apt-get -qq update || die 1 "apt-get update failed." "$package could not be installed." "apt-get update"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$package" >/dev/null ||
        die 1 "$package could not be installed." ".venv cannot be made." "apt-get install $package"
}

python_advice() {
    if have apt-get; then
        echo "sudo apt-get install python3 python3-venv"
    elif have dnf; then
        echo "sudo dnf install python3 python3-pip"
    elif have brew; then
        echo "brew install python"
    else
        echo "install Python 3.10 or newer with venv and pip"
    fi
}

# A pip to borrow: of any Python here, or the wheel that Debian keeps for its own tools.
find_pip() {
    local candidate wheel
    for candidate in "$@"; do
        "$candidate" -c 'import os, pip; print(os.path.dirname(os.path.abspath(pip.__file__)))' 2>/dev/null && return
    done
    for wheel in /usr/share/python-wheels/pip-*.whl; do
        [ ! -f "$wheel" ] || { echo "$wheel/pip" && return; }
    done
}

make_venv() {
    if [ -z "$pip_from" ]; then
        "$python" -m venv .venv >>"$log" 2>&1 || failed "$python -m venv failed." "$(python_advice)"
        pip=(.venv/bin/python -m pip)
        return
    fi
    say "  $python has no ensurepip; borrowing the pip of $pip_from"
    "$python" -m venv --without-pip .venv >>"$log" 2>&1 || failed "$python -m venv failed." "$(python_advice)"
    if [ -d "$pip_from" ]; then
        # Through a link in a folder of its own: run from where it lies, pip would take its neighbours for packages of the .venv.
        mkdir .venv/borrowed-pip
        ln -s "$pip_from" .venv/borrowed-pip/pip
        pip_from=.venv/borrowed-pip/pip
    fi
    pip=(.venv/bin/python "$pip_from")
}

install_packages() {
    local total
    total=$(grep -c '^[A-Za-z0-9].*==' "$lock")
    # The user's index, mirrors and certificates count; where a package lands does not follow other settings of theirs.
    unset PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV PYTHONPATH PYTHONHOME
    export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
    say "  installing the packages of $lock (log: $log)"
    # The lock is complete, so there is nothing to resolve; and most modules of the tools are never imported, so none is compiled ahead.
    "${pip[@]}" install --no-deps --no-compile --progress-bar off --require-hashes --requirement "$lock" 2>&1 | tee -a "$log" | show_progress "$total" ||
        failed "The locked packages could not be installed." "mend what the lines above name (network, pip configuration), then: make"
    "${pip[@]}" install --quiet --no-deps --no-build-isolation --editable . >>"$log" 2>&1 ||
        failed "The harness could not be installed into .venv." "make (again)"
    rm -rf .venv/borrowed-pip
    # What every verb imports is compiled here: Python would do it at first use, but not where PYTHONDONTWRITEBYTECODE is set.
    local package
    for package in annotated_types certifi charset_normalizer click docker filelock idna jinja2 markupsafe pydantic pydantic_core \
        requests rich typing_extensions.py typing_inspection urllib3 yaml; do
        .venv/bin/python -m compileall -q .venv/lib/python3*/site-packages/"$package" >>"$log" 2>&1 || true
    done
    .venv/bin/python -m compileall -q harness >>"$log" 2>&1 || true
}

# On a terminal: one line that counts the packages as pip comes to them.
show_progress() {
    if [ -t 2 ]; then
        awk -v total="$1" '/^Ignoring / { total-- } # not for this system or this Python
            /^Collecting / { n++; name = $2; sub(/[=; ].*/, "", name); printf "\r\033[K  %d/%d %s", n, total, name > "/dev/stderr" }
            /^Installing collected/ { printf "\r\033[K  unpacking" > "/dev/stderr" } END { printf "\r\033[K" > "/dev/stderr" }'
    else
        cat >/dev/null
    fi
}

failed() {
    say "Last lines of $log:"
    tail -n 12 "$log" >&2
    die 1 "$1" ".venv is not complete; no verb can run." "$2"
}

main "$@"
