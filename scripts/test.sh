#!/usr/bin/env bash
# Every check and every test of the project, in stages with their times.
#
#   scripts/test.sh          all of them, with the outside programs installed first
#   scripts/test.sh lint     only the checks that read the source
#
# No test is skipped here for a missing program: MBWRAP_REQUIRE turns such a skip into a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO=${GO:-go}
report=''
started=$SECONDS

# stage NAME COMMAND... runs a command under a heading and keeps its time; the first failure ends the run.
stage() {
  local name=$1 from=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if ! "$@"; then
    printf '\n%s\n== "%s" found something to fix (after %d s)\n' "$report" "$name" $((SECONDS - from)) >&2
    exit 1
  fi
  report+=$(printf '%6d s  %s' $((SECONDS - from)) "$name")$'\n'
}

tool() {
  "$GO" tool -modfile=tools/go.mod "$@"
}

check_format() {
  local files
  files=$(gofmt -l .) || return
  [ -z "$files" ] || {
    printf 'gofmt would change:\n%s\n' "$files"
    return 1
  }
}

check_module() {
  "$GO" mod tidy -diff && "$GO" mod verify
}

# The pure-Go build is a second program: it must at least pass vet and build whole.
check_vet() {
  "$GO" vet ./... && CGO_ENABLED=0 "$GO" vet ./...
}

run_tests() {
  tool gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary output \
    --jsonfile ".cache/tests-$1.json" -- "${@:2}"
}

test_race() {
  run_tests race -race -timeout 15m ./...
}

# The rooms whose code or whose callers' code differs without cgo.
test_without_cgo() {
  CGO_ENABLED=0 run_tests pure -timeout 10m ./codec/... ./pipeline/... ./catalog/... ./restore/...
}

# The race detector is too slow to damage, and to fill a disk at, every single byte: there some are left out, here none is.
test_every_byte() {
  run_tests every -timeout 10m ./verify/... ./internal/backup/...
}

lint() {
  stage 'gofmt' check_format
  stage 'go vet, with and without cgo' check_vet
  stage 'staticcheck' tool staticcheck ./...
  stage 'go mod tidy, go mod verify' check_module
  stage 'go fix' "$GO" fix -diff ./...
}

all() {
  stage 'setup' scripts/setup.sh build demo test
  export MBWRAP_REQUIRE=${MBWRAP_REQUIRE:-all}
  lint
  mkdir -p .cache
  stage 'tests with the race detector' test_race
  stage 'tests without cgo' test_without_cgo
  stage 'tests of every byte' test_every_byte
  stage 'each build reads the other'\''s backups' scripts/crossbuild.sh
}

# summary closes the run: the time of each stage, then one line that says how many tests ran.
summary() {
  printf '\n%s%6d s  in all\n\n' "$report" $((SECONDS - started))
  [ "$1" = all ] || return 0
  printf 'tests: %d passed, %d failed, %d skipped\n' "$(count pass)" "$(count fail)" "$(count skip)"
}

# count ACTION counts the tests that ended so, of all runs.
count() {
  cat .cache/tests-race.json .cache/tests-pure.json .cache/tests-every.json | grep -c "\"Action\":\"$1\".*\"Test\":\"" || true
}

case "${1:-all}" in
all) all ;;
lint) lint ;;
*) echo "test.sh: unknown argument \"$1\"; none or lint" >&2 && exit 64 ;;
esac
summary "${1:-all}"
