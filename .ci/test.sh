#!/bin/sh
# Everything that must hold before a change is merged, step by step. Called by `make test`.
set -eu
bin=${VENV:-.venv}/bin
export DATA_DIR="${TEST_DATA_DIR:-$(mktemp -d)}"

step() {
    printf '\n== %s\n' "$*"
    "$@"
}

missing() {
    command -v "$1" >/dev/null 2>&1 && return 1
    ls /usr/lib/postgresql/*/bin/"$1" >/dev/null 2>&1 && return 1
    return 0
}

packages=""
missing initdb && packages="$packages postgresql"
{ missing chromium && missing chromium-browser && missing google-chrome; } && packages="$packages chromium fonts-liberation"
if [ -n "$packages" ]; then
    if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        step apt-get update -qq
        # shellcheck disable=SC2086  # a list of package names
        DEBIAN_FRONTEND=noninteractive step apt-get install -y -qq --no-install-recommends $packages
    elif [ "${CI:-}" = true ]; then
        echo "nightdesk: the tests need:$packages" >&2
        exit 1
    else
        echo "nightdesk: not found, so the tests that need them are skipped:$packages"
    fi
fi

# What the suite begins with is made on one core while the other one reads the code.
TEST_PREPARED=$(mktemp -d /tmp/nightdesk-prepared-XXXXXX) # beside the folders of the desks: files are linked
export TEST_PREPARED
trap 'rm -rf "$TEST_PREPARED"' EXIT
unset PYTHONDONTWRITEBYTECODE # a hundred processes would each compile every module
"$bin/python" -m tests.prepared &
preparing=$!

step "$bin/ruff" format --check .
step "$bin/ruff" check .
step "$bin/mypy"
step "$bin/lint-imports"
step "$bin/python" manage.py makemigrations --check --dry-run
wait "$preparing"
step "$bin/python" -m tests.suite "$@"
