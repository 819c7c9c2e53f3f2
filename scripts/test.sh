#!/usr/bin/env bash
# What `make test` runs: lint, types, import layers, shell scripts, Dockerfiles, unit tests, scenario tests. All of them run, whatever fails.
#
# usage: test.sh [--full]   --full adds what is long (the tests marked slow)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export PATH="$PWD/.venv/bin:$PATH"

selection="not slow"
[ "${1:-}" != --full ] || selection="slow or not slow"
failed=()

step() {
    local name=$1 start=$SECONDS
    shift
    printf '\n── %s\n' "$name"
    if "$@"; then printf '✓ %s  %d s\n' "$name" $((SECONDS - start)); else
        printf '✗ %s  %d s\n' "$name" $((SECONDS - start))
        failed+=("$name")
    fi
}

files() { git ls-files --cached --others --exclude-standard -- "$@"; }

# By suffix or by first line: what runs in containers has no suffix.
shell_scripts() {
    local path
    files '*.sh' .ci scripts docker | sort -u | while read -r path; do
        case $path in
        *.sh) echo "$path" ;;
        *) ! head -n 1 "$path" | grep -qE '^#!.*(ba|/)sh$' || echo "$path" ;;
        esac
    done | tr '\n' '\0' | xargs -0 shellcheck --external-sources
}

dockerfiles() { files '*Dockerfile*' | grep -v dockerignore | tr '\n' '\0' | xargs -0 hadolint; }

# Real processes on a machine that others use as well: up to so many that failed run once more, with nothing beside them.
# Who passes then is named at the end: a fault of the test or of ours that only shows at times, and to be found.
SECOND_CHANCES=3
unsteady=()

scenarios() {
    local cache=.drydock/tests/pytest-$1 failed_once=() names=() name
    shift
    python -m pytest tests/scenarios --durations=25 -o cache_dir="$cache" --cache-clear "$@" && return
    mapfile -t names < <(python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$cache/v/cache/lastfailed")
    for name in "${names[@]}"; do [ -z "$name" ] || failed_once+=("$name"); done
    [ ${#failed_once[@]} -gt 0 ] && [ ${#failed_once[@]} -le "$SECOND_CHANCES" ] || return 1
    printf '\n── once more, with nothing beside it: %s\n' "${failed_once[*]}"
    python -m pytest -o cache_dir="$cache-again" --cache-clear "${failed_once[@]}" || return 1
    unsteady+=("${failed_once[@]}")
}

step "ruff" ruff check .
step "mypy" mypy
step "import layers" lint-imports
step "shellcheck" shell_scripts
step "Dockerfiles" dockerfiles
step "known vulnerabilities" scripts/audit.sh
step "a browser" scripts/ensure-chromium.sh
# Two at a time: most of what a scenario takes is waiting. Each folder stays with one process (tests/scenarios/conftest.py).
two=(-n 2)
step "unit tests" python -m pytest -q tests/unit -m "$selection" "${two[@]}"
step "scenario tests" scenarios beside -m "($selection) and not alone" "${two[@]}" --durations 25
step "scenario tests, those that must be alone" scenarios alone -m "($selection) and alone"

echo
for name in "${unsteady[@]}"; do printf '⚠ failed once, passed alone: %s\n' "$name"; done
if [ ${#failed[@]} -gt 0 ]; then
    printf '✗ %s\n' "${failed[@]}"
    exit 1
fi
echo "✓ all green  $SECONDS s"
