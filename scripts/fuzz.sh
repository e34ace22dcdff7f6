#!/usr/bin/env bash
# Runs every fuzz target of the project a fixed number of times: the same work on every machine.
#
#   scripts/fuzz.sh [COUNT]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO=${GO:-go}
count=${1:-20000}
ran=0

for package in $("$GO" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
  for target in $("$GO" test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    echo "== $package $target, $count times"
    "$GO" test -run '^$' -fuzz "^$target\$" -fuzztime "${count}x" "$package"
    ran=$((ran + 1))
  done
done
[ "$ran" -gt 0 ] || {
  echo "fuzz: no fuzz target found" >&2
  exit 1
}
echo "fuzz: $ran targets, $count times each"
