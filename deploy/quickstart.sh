#!/usr/bin/env bash
# From a fresh clone to a first result table: installs, builds the release, runs deploy/sweeps/quickstart.yaml.
# Run it again after any interruption: only what is missing is done.   deploy/quickstart.sh [arguments of iclsweep run]
set -euo pipefail
cd "$(dirname "$0")/.."
deploy/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release
exec build/release/iclsweep run deploy/sweeps/quickstart.yaml "$@"
