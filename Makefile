# make build, make test, make demo; `make help` lists the rest. Needs Go, git and make; the lab needs root on Linux, too.
# docs/building.md has the reasons for the flags, and CONTRIBUTING.md says what each test target is for.

GO           ?= go
VERSION      ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS       = -s -w -funcalign=1 -X main.version=$(VERSION)
GOFLAGS_BUILD = -trimpath -buildvcs=false -ldflags "$(LDFLAGS)"
GOFLAGS_AGENT = -trimpath -buildvcs=false -tags nethttpomithttp2 -gcflags=all=-l -ldflags "$(LDFLAGS) -X main.version=[[gpuaas-agent=$(VERSION)]]"
GOFLAGS_FAULT = -trimpath -buildvcs=false -gcflags=all=-l -ldflags "$(LDFLAGS)"
BINARIES      = ./cmd/gpuaas-gpu-policy ./cmd/gpuaas-platform
CC_FOUND     := $(shell command -v $$($(GO) env CC 2>/dev/null) 2>/dev/null)
NVML          = bin/libnvidia-ml-fake.so bin/nvml-read
NVML_FLAGS    = -std=gnu17 -O1 -Wall -Wextra -Werror
PUSHED        = $(foreach arch,amd64 arm64,$(addprefix dist/linux-$(arch)/,gpuaas-agent gpuaas-fault gpuaas-gpu-probe))
export CGO_ENABLED ?= 0
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
export GOFLAGS := -trimpath $(GOFLAGS)
build drill-agent lint test race test-deep mutants test-mutants test-fuzz golden: export GOGC ?= 400
unexport GITHUB_ACTIONS GITHUB_STEP_SUMMARY COLUMNS CLICOLOR_FORCE FORCE_COLOR
# For one run: PACKAGES of test and test-bare, ARGS of test, lab-smoke and mutants, LAB_RUN and LAB_SKIP (go test -run and
# -skip) of test-lab, FUZZTIME. Tests that break one node run on LAB_NODES at once, cells of the crash matrix on CRASH_NODES.
CRASH_NODES ?= 4
PATIENCE     = -timeout 40m
NEEDS        = $(GO) run ./tools/testneeds
AGAIN        = $(MAKE) --no-print-directory
LAB_TEST     = env GPUAASCTL_LAB_TESTS=1 GPUAASCTL_BIN=$(CURDIR)/bin $(GO) test -count=1
LAB_WALK     = --profile lab --node-id compute-node-01 --allocation-id alloc-01
# $(call as_root,COMMAND) runs it as root on Linux, and elsewhere prints that it is skipped.
as_root = @if [ "$$(id -u) $$(uname -s)" = "0 Linux" ]; then $(1); else echo "make $@: skipped: needs root on Linux"; fi

.PHONY: build drill-agent dist pushed programs tool test race lab-smoke ready test-deep mutants needs test-mutants test-fuzz test-lab test-bare test-bare-lab test-html demo drills crash-matrix lint golden schema catalogue picture bench bench-quick clean help

build: $(if $(CC_FOUND),$(NVML)) ## bin/: gpuaasctl, gpuaas-agent, gpuaas-fault, gpuaas-platform, gpuaas-gpu-probe, gpuaas-gpu-policy
	@$(AGAIN) pushed INTO=bin
	@$(AGAIN) programs INTO=bin HELPERS="bin/gpuaas-agent bin/gpuaas-fault bin/gpuaas-gpu-probe bin/gpuaas-gpu-policy"
	@$(if $(CC_FOUND),,rm -f $(NVML); echo "note: no C compiler, so gpuaas-gpu-probe is built without NVML, and the lab's nodes have no GPUs")
bin/libnvidia-ml-fake.so: lab/nvml/fake.c lab/nvml/calls.h
	@mkdir -p bin && $(CC_FOUND) $(NVML_FLAGS) -shared -fPIC -o $@ $<
bin/nvml-read: lab/nvml/read.c
	@mkdir -p bin && $(CC_FOUND) $(NVML_FLAGS) -o $@ $<
drill-agent: ## bin/gpuaas-agent-oldterminal: an older agent, which the drill terminal-open-without-stream runs
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_AGENT) -tags "nethttpomithttp2 oldterminal" -o bin/gpuaas-agent-oldterminal ./cmd/gpuaas-agent

# Every tool may push to nodes with Linux of each type, so what is pushed is built first.
dist: ## dist/OS-ARCH/: the tool and its policy program for Linux and macOS, the rest for Linux; with the licenses
	@mkdir -p dist && $(GO) run ./tools/notices dist/THIRD_PARTY_NOTICES $(BINARIES) ./cmd/gpuaasctl ./cmd/gpuaas-agent ./cmd/gpuaas-fault ./cmd/gpuaas-gpu-probe
	@set -e; for arch in amd64 arm64; do GOOS=linux GOARCH=$$arch $(AGAIN) pushed INTO=dist/linux-$$arch; done; \
	for to in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do \
		GOOS=$${to%-*} GOARCH=$${to#*-} $(AGAIN) programs INTO=dist/$$to HELPERS="$(PUSHED) dist/$$to/gpuaas-gpu-policy"; \
		cp LICENSE dist/THIRD_PARTY_NOTICES dist/$$to/; done
pushed:
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_AGENT) -o $(INTO)/ ./cmd/gpuaas-agent
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_FAULT) -o $(INTO)/ ./cmd/gpuaas-fault
	GO="$(GO)" tools/probe.sh $(INTO)/ $(GOFLAGS_BUILD)
programs:
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_BUILD) -o $(INTO)/ $(if $(filter darwin,$(GOOS)),./cmd/gpuaas-gpu-policy,$(BINARIES))
	@$(AGAIN) tool
tool: # gpuaasctl runs HELPERS beside itself, and pushes them to nodes, only if they have the digests that it links
	@set -e; test -n "$(HELPERS)"; sums=; for file in $(HELPERS); do sum=$$($(or $(shell command -v sha256sum),shasum -a 256) <$$file); sum=$${sum%% *}; \
		test $${#sum} = 64; sums=$$sums,$${file##*/}:$$sum; done; set -x; \
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS) -X main.helpers=$${sums#,}" -o $(INTO)/ ./cmd/gpuaasctl

test: ## the tests of everything that needs no root and no lab: minutes
	@$(GO) run ./tools/ci test $(ARGS) $(PACKAGES)
race: ## the race detector over the packages with goroutines
	@$(GO) run ./tools/ci race
lab-smoke: ## real machines: what has changed lately, and a few more faults and drills
	@$(GO) run ./tools/labsmoke $(ARGS)
ready: needs build drill-agent # all downloads of the tests, and the image of the lab's machines; a lab that is up is taken down
	$(call as_root,bin/gpuaasctl lab up && bin/gpuaasctl lab down)
test-deep: ready ## every row of every table, every fault and drill: in parts that can be stopped and continued
	@$(GO) run ./tools/ci deep
mutants: ## mistakes that are planted in what decides, which tests must find
	@$(GO) run ./tools/mutants $(ARGS)
needs: ## install, as root on Debian or Ubuntu, the packages that the lab and the tests run
	@$(NEEDS) fast && $(NEEDS) lab
test-mutants: ## mistakes in what drills do and judge, which their tests must find
	$(GO) test -tags mutants -count=1 $(PATIENCE) -run TestMutants ./chaos/node ./chaos/drill
test-fuzz: ## every fuzzer for some seconds (FUZZTIME=3s)
	$(GO) run ./tools/fuzzall -time $(or $(FUZZTIME),3s)
test-lab: ## walks, faults and drills on real machines: all of them, and a sample of the crash matrix
	$(call as_root,$(NEEDS) lab && $(AGAIN) build drill-agent && tools/ownlab.sh 0 \
		$(LAB_TEST) -p 1 -parallel $(or $(LAB_NODES),5) $(PATIENCE) -run '$(LAB_RUN)' -skip '$(LAB_SKIP)' ./lab ./lab/e2e ./chaos/node)
crash-matrix: ## every step of a drill, and everything that can die at it, on a lab of its own (CRASH_NODES=4)
	$(call as_root,$(NEEDS) lab && $(AGAIN) build && \
		tools/ownlab.sh $(CRASH_NODES) env GPUAASCTL_CRASH=all $(LAB_TEST) -run TestCrashMatrix -parallel $(CRASH_NODES) -timeout 4h ./lab/e2e)
test-bare: ## the tests in a bare Debian that has Go, git and make; then the lab suite's packages (root)
	$(call as_root,$(GO) run ./tools/baretest $(PACKAGES))
test-bare-lab: ## make demo and a part of the lab suite in a bare Debian, where no lab is up (root)
	$(call as_root,$(GO) run ./tools/baretest lab)
test-html: ## pages of walks in Chromium, checked by axe-core, which npm installs into a temporary folder
	@$(NEEDS) html && dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && npm install --silent --no-audit --no-fund --prefix "$$dir" axe-core@4.14.1 && \
		GPUAASCTL_AXE="$$dir/node_modules/axe-core/axe.min.js" $(GO) test -count=1 -v -run 'TestPages' ./golden
demo: ## a lab of real machines, and one walk over it
	@$(NEEDS) gpus && $(AGAIN) build
	bin/gpuaasctl lab up && bin/gpuaasctl preflight $(LAB_WALK)
drills: ## every drill once, on a lab, and one table of what came of them
	@$(NEEDS) gpus && $(AGAIN) build drill-agent
	bin/gpuaasctl lab up && bin/gpuaasctl chaos run --book everything $(LAB_WALK) && bin/gpuaasctl chaos residue --profile lab
lint: ## gofmt, go vet, and golangci-lint where it is installed, else staticcheck
	@code=0; bad=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "not formatted by gofmt:"; echo "$$bad"; code=1; }; \
	set -x; $(GO) vet ./... || code=1; \
	if command -v golangci-lint >/dev/null; then golangci-lint run; else $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...; fi || code=1; exit $$code
golden: ## write every golden file again; look at the difference before you commit it
	GPUAASCTL_TESTS=deep GPUAASCTL_UPDATE_GOLDEN=1 $(GO) test -count=1 $(PATIENCE) ./...
schema: ## diag/schema/*.json, chaos/schema/*.json and gpu/policy/schema/*.json from the Go types
	$(GO) generate ./diag/schema ./chaos/schema ./gpu/policy/schema
catalogue: ## the Go tables of diag/catalogue/*.yaml
	$(GO) generate ./diag
picture: ## pages of docs/ that are made: two pictures, hops, drills, runbook; the made parts of README.md and of others
	$(GO) run ./tools/docgen
bench bench-quick: ## one table of ratios, and what fell back behind the best; bench-quick in two minutes
	@$(NEEDS) bench && $(GO) run ./tools/bench $(if $(filter bench-quick,$@),-quick)
clean: ## remove what was built
	rm -rf bin dist
help: ## this list
	@sed -n 's/^\([a-z -]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20
