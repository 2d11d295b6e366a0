#!/usr/bin/env bash
# Every test and command that tests/SCENARIOS.md names exists.
#   scenarios_test.sh SOURCE_DIR
set -euo pipefail
cd "$1"
missing=0
while read -r name; do
  case $name in
    */*) [ -f "$name" ] && continue ;;
    test_*) grep -q "def $name(" tests/e2e/*.py && continue ;;
    # The line may be broken after the suite.
    *.*) grep -rhozqE "TEST(_F|_P)?\(${name%%.*},\s*${name##*.}\)" tests --include='*.cc' && continue ;;
  esac
  echo "tests/SCENARIOS.md names $name, which is not there"
  missing=1
done < <(grep -oE '`([A-Z][A-Za-z]+\.[A-Z][A-Za-z]+|test_[a-z0-9_]+|deploy/[a-z/_]+\.py)`' tests/SCENARIOS.md | tr -d '`' | sort -u)
exit $missing
