# What to run: make build, make test, make demo. `make help` lists the rest. Needs Go, git and make; the lab also needs
# root on Linux, and installs the Debian packages that it lacks.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# No VCS stamp: the version says it, and git refuses to answer in a folder that somebody else owns.
GOFLAGS_BUILD = -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)"
NODE_BINARIES = ./cmd/gpuaas-agent ./cmd/gpuaas-platform
BINARIES      = ./cmd/gpuaasctl $(NODE_BINARIES)

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The race detector needs cgo, so a C compiler; without one the same tests run without it.
CC_FOUND := $(shell command -v $$($(GO) env CC 2>/dev/null) 2>/dev/null)

.DEFAULT_GOAL := build
.PHONY: build dist test test-fast test-lab demo lint golden schema picture bench bench-quick clean help

build: ## bin/gpuaasctl, bin/gpuaas-agent, bin/gpuaas-platform
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_BUILD) -o bin/ $(BINARIES)

dist: ## dist/OS-ARCH/: the tool for Linux and macOS, the rest for Linux
	@set -e; for os in linux darwin; do for arch in amd64 arm64; do \
		mkdir -p dist/$$os-$$arch; what="./cmd/gpuaasctl"; \
		if [ $$os = linux ]; then what="$(BINARIES)"; fi; \
		echo "dist/$$os-$$arch"; \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch $(GO) build $(GOFLAGS_BUILD) -o dist/$$os-$$arch/ $$what; \
	done; done

test: test-fast test-lab ## the fast suite, then on root the lab suite

test-fast: ## everything that needs no root
ifneq ($(CC_FOUND),)
	CGO_ENABLED=1 $(GO) test -race ./...
else
	@echo "note: no C compiler, so without the race detector"
	$(GO) test ./...
endif

test-lab: ## walks and faults on real machines
ifneq ($(shell id -u),0)
	@echo "lab suite skipped: needs root"
else ifneq ($(shell uname -s),Linux)
	@echo "lab suite skipped: needs Linux"
else
	@$(MAKE) --no-print-directory build
	GPUAASCTL_LAB_TESTS=1 GPUAASCTL_BIN=$(CURDIR)/bin $(GO) test -count=1 -p 1 -timeout 40m ./lab/... ./e2e/...
endif

demo: build ## a lab of real machines, and one walk over it
	bin/gpuaasctl lab up
	bin/gpuaasctl preflight --profile lab --node-id compute-node-01 --allocation-id alloc-01

lint: ## gofmt, go vet, and golangci-lint where it is installed, else staticcheck
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "not formatted by gofmt:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	@if command -v golangci-lint >/dev/null; then echo golangci-lint run; golangci-lint run; \
	else echo $(GO) run $(STATICCHECK) ./...; $(GO) run $(STATICCHECK) ./...; fi

golden: ## write every golden file anew; look at the difference before you commit it
	GPUAASCTL_UPDATE_GOLDEN=1 GPUAAS_UPDATE=1 $(GO) test -count=1 ./...

schema: ## diag/schema/*.json from the Go types
	$(GO) generate ./diag/schema

picture: ## docs/table.svg, docs/hops.md and the made parts of README.md and docs/contract.md
	$(GO) run ./internal/docgen

bench: ## one table of ratios
	$(GO) run ./bench

bench-quick: ## the same in under two minutes
	$(GO) run ./bench -quick

clean: ## take away what was built
	rm -rf bin dist

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14
