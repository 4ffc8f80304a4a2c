# SPDX-License-Identifier: Apache-2.0
# Sourced by every script here: where things are, and how a step is told to people.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
PY=$VENV/bin/python
TREE=build/cpp # the one Release tree: extension, C++ tests, C++ benches
JOBS=$(nproc)

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi

say() { printf '\n\033[1m==> %s\033[0m\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die() { printf '\nerror: %s\n' "$*" >&2; exit 1; }

# stamped FILE KEY: true when FILE holds KEY, that is when a step was done with these inputs before.
stamped() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }
stamp() { mkdir -p "$(dirname "$1")" && printf '%s\n' "$2" >"$1"; }
hash_of() { cat "$@" | sha256sum | cut -d' ' -f1; }

# pip without the warnings about extra package folders that a machine may list but not have.
pip_install() {
  $PY -m pip install -q "$@" 2> >(grep -v 'it is neither a file nor a directory' >&2)
}

# run_ctest TREE [ARGUMENT...]: one line per test, and its output when it fails.
run_ctest() {
  ctest --test-dir "$1" -j "$JOBS" --output-on-failure --no-tests=error "${@:2}" | grep -v '^ *Start  *[0-9]'
}
