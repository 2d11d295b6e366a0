#!/usr/bin/env bash
# Installs what is missing, builds the programs with their tests, runs them.   tests/run.sh [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
deploy/setup.sh --tests
cmake --preset dev
cmake --build --preset dev
exec ctest --test-dir build/dev --output-on-failure -j 2 "$@"
