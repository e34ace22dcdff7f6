#!/usr/bin/env bash
# Proves that the two builds read each other's backups: libzstd through cgo, and pure Go. Each packs a stream into a
# repository with each codec; the other gives it back, byte for byte.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

CGO_ENABLED=1 "$GO" build -o "$work/cgo" .
CGO_ENABLED=0 "$GO" build -o "$work/pure" .
"$GO" run ./internal/gendata/genstream --kind tpcc --size 24M >"$work/stream"

# one WRITER READER CODEC
one() {
  local repo="$work/repo-$1-$3"
  "$work/$1" backup --stdin --skip-check --quiet --server cross --repo "$repo" --codec "$3" <"$work/stream"
  "$work/$2" cat --server cross --repo "$repo" latest | cmp - "$work/stream"
  "$work/$2" verify --level read --quiet --server cross --repo "$repo" latest
  echo "ok  $3 written by $1, read by $2"
}

for codec in zstd gzip lz4 none; do
  one cgo pure "$codec"
  one pure cgo "$codec"
done
