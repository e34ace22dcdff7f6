# mbwrap: build, demo, tests. A fresh Debian needs only Go, git and make; scripts/setup.sh installs the rest.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty --match 'v*' 2>/dev/null)
LDFLAGS  = -s -w $(if $(VERSION),-X github.com/mbwrap/mbwrap/internal/cli.version=$(VERSION))

# Tools of the project's own modules under tools/: built on first use, then cached by the go command.
STATICCHECK = $(GO) tool -modfile=tools/go.mod staticcheck
GORELEASER  = $(GO) tool -modfile=tools/release/go.mod goreleaser

# How often each fuzz target runs, and what make demo and make bench pass on.
FUZZ_COUNT  ?= 20000
DEMO_FLAGS  ?=
BENCH_FLAGS ?=

.PHONY: build static demo test lint fuzz cover bench release-check snapshot setup clean help
.DEFAULT_GOAL := build

build: ## build ./mbwrap (the default)
	@scripts/setup.sh build
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o mbwrap .

static: ## build ./mbwrap with libzstd as one static binary
	@scripts/setup.sh build
	$(GO) build -trimpath -tags netgo,osusergo -ldflags '$(LDFLAGS) -linkmode external -extldflags -static' -o mbwrap .

demo: ## see it work: back up a throwaway server, change it, restore, compare
	@scripts/setup.sh build demo
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o mbwrap .
	@$(GO) run ./internal/demo --mbwrap ./mbwrap $(DEMO_FLAGS)

test: ## every check and every test, with all outside programs
	@scripts/test.sh

lint: ## the checks of make test that read the source only
	@scripts/test.sh lint

fuzz: ## run every fuzz target FUZZ_COUNT times
	@scripts/fuzz.sh $(FUZZ_COUNT)

cover: ## coverage by package and in total; details in .cache/cover.html
	@scripts/setup.sh build test
	@mkdir -p .cache
	$(GO) test -coverprofile=.cache/cover.out ./...
	@$(GO) tool cover -func=.cache/cover.out | tail -n 1
	@$(GO) tool cover -html=.cache/cover.out -o .cache/cover.html

bench: ## measure against gzip, pigz, lz4, zstd and mariadb-backup; writes docs/benchmarks.md
	@scripts/setup.sh build bench
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o mbwrap .
	@$(GO) run ./internal/bench --mbwrap ./mbwrap --write docs/benchmarks.md $(BENCH_FLAGS)

release-check: ## check goreleaser.yaml
	$(GORELEASER) check

snapshot: ## build archives and packages of the current tree into dist/
	$(GORELEASER) release --snapshot --clean

setup: ## install the programs that the demo, the tests and the benchmark need
	@scripts/setup.sh build demo test bench

clean: ## remove what the other targets made
	rm -rf mbwrap dist .cache

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
