# What to run: make build, make test, make demo. `make help` lists the rest. Needs Go, git and make. The lab also needs
# root on Linux. As root on Debian or Ubuntu the lab and the tests install the packages that they lack (INSTALL=no: the
# tests install none, and skip what needs one).

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# No VCS stamp: the version says it, and git refuses to answer in a folder that somebody else owns.
# Without gaps between functions, which are 2 % of a program on amd64, where an instruction may begin anywhere; assembly
# that asks for an alignment keeps it, and on arm64 nothing changes.
LDFLAGS       = -s -w -funcalign=1 -X main.version=$(VERSION)
GOFLAGS_BUILD = -trimpath -buildvcs=false -ldflags "$(LDFLAGS)"

# The agent is on every node, next to somebody's workload, and has 8.5 MB, which a test holds. It does without HTTP/2,
# which it never speaks (0.4 MB), and without inlining (0.7 MB): it mostly waits, and nearly all of the file is resident.
# Its version is between two marks, so that it can be read from the file: nobody runs a program to ask what it is.
GOFLAGS_AGENT = -trimpath -buildvcs=false -tags nethttpomithttp2 -gcflags=all=-l -ldflags "$(LDFLAGS) -X main.version=[[gpuaas-agent=$(VERSION)]]"
AGENT         = ./cmd/gpuaas-agent

# What breaks a node for a drill is pushed over SSH for every drill, and has 5 MB. Without inlining: it mostly waits.
GOFLAGS_FAULT = -trimpath -buildvcs=false -gcflags=all=-l -ldflags "$(LDFLAGS)"
FAULT         = ./cmd/gpuaas-fault
# What gpuaasctl runs beside itself on every system, and what the lab runs.
POLICY   = ./cmd/gpuaas-gpu-policy
BINARIES = $(POLICY) ./cmd/gpuaas-platform

# What asks NVIDIA's driver, on nodes with GPUs, in a process of its own. It calls the driver's library through cgo, so it
# needs a C compiler; built without one it writes that it cannot ask. The binding calls what NVIDIA calls deprecated.
PROBE          = ./cmd/gpuaas-gpu-probe
CC_FOUND      := $(shell command -v $$($(GO) env CC 2>/dev/null) 2>/dev/null)
PROBE_CGO     := $(if $(CC_FOUND),1,0)
# In the place of NVIDIA's library on the lab's nodes, and what drills read it with.
NVML           = bin/libnvidia-ml-fake.so bin/nvml-read
NVML_FLAGS     = -std=gnu17 -O1 -Wall -Wextra -Werror
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

# The agent that reports a terminal's success before it has one: a build of its own, for drills.
OLD_TERMINAL = -tags oldterminal -run TestOldTerminal ./agent

# One way to compile for all that is built and tested, here and in a bare tree: what one compiles the others find in
# Go's cache. Programs are built without cgo, so tests are too; the race detector alone needs it.
export CGO_ENABLED ?= 0
# What a CI job sets would change what the programs under test print.
unexport GITHUB_ACTIONS GITHUB_STEP_SUMMARY COLUMNS CLICOLOR_FORCE FORCE_COLOR
export GOFLAGS := -trimpath $(GOFLAGS)

# Ends a package that hangs. The slowest takes two minutes, and five times as long on a machine with other work.
PATIENCE = -timeout 40m

# The tests of drills are tried on copies of their code with one mistake each, which they must find. Not under the race
# detector: compiling is what takes the time.
MUTANTS = -tags mutants -count=1 -run TestMutants ./chaos/node ./chaos/drill

# Compilers and tests end before their garbage is a problem: collected less often, compiling takes a sixth less, and the
# fast suite a fourth. The lab suite measures programs as they are.
build drill-agent lint test-plain test-race test-mutants test-fuzz: export GOGC ?= 400

# For `go test` of the fast suite: PACKAGES=./agent/... tests these alone, TESTFLAGS=-json prints events.
# lab/e2e/inprocess takes the longest, so it begins first.
PACKAGES  ?= ./lab/e2e/inprocess ./...
TESTFLAGS ?=

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := build
.PHONY: build tool drill-agent dist test test-fast needs test-plain test-mutants test-fuzz test-race test-lab test-bare test-bare-lab bare test-html demo drills crash-matrix lint golden schema catalogue picture bench bench-quick clean help

build: $(if $(CC_FOUND),$(NVML)) ## bin/gpuaasctl, bin/gpuaas-agent, bin/gpuaas-fault, bin/gpuaas-platform, bin/gpuaas-gpu-probe, bin/gpuaas-gpu-policy
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_BUILD) -o bin/ $(BINARIES)
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_AGENT) -o bin/ $(AGENT)
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_FAULT) -o bin/ $(FAULT)
	@$(MAKE) --no-print-directory tool INTO=bin HELPERS="bin/gpuaas-agent bin/gpuaas-fault bin/gpuaas-gpu-policy"
	CGO_ENABLED=$(PROBE_CGO) $(GO) build $(GOFLAGS_BUILD) -o bin/ $(PROBE)
ifeq ($(CC_FOUND),)
	@rm -f $(NVML)
	@echo "note: no C compiler, so gpuaas-gpu-probe is built without NVML, and the lab's nodes have no GPUs"
endif

bin/libnvidia-ml-fake.so: lab/nvml/fake.c lab/nvml/calls.h
	@mkdir -p bin
	$(CC_FOUND) $(NVML_FLAGS) -shared -fPIC -o $@ $<

bin/nvml-read: lab/nvml/read.c
	@mkdir -p bin
	$(CC_FOUND) $(NVML_FLAGS) -o $@ $<

drill-agent: ## bin/gpuaas-agent-oldterminal: an older agent, which the drill terminal-open-without-stream runs
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_AGENT) -tags "nethttpomithttp2 oldterminal" -o bin/gpuaas-agent-oldterminal $(AGENT)

# gpuaasctl runs HELPERS beside itself, or pushes them to nodes that run them as root, only if they have the digests that
# it links. Equal sources give equal digests, so a second build changes nothing.
SHA256 = $(if $(shell command -v sha256sum),sha256sum,shasum -a 256)
tool:
	@set -e; test -n "$(HELPERS)"; sums=; for file in $(HELPERS); do sum=$$($(SHA256) <$$file); sum=$${sum%% *}; \
		test $${#sum} = 64; sums=$$sums,$${file##*/}:$$sum; done; set -x; \
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS) -X main.helpers=$${sums#,}" -o $(INTO)/ ./cmd/gpuaasctl

# Every tool may push to a node with Linux of each type, so these helpers are built first.
DIST_PUSHED = $(foreach arch,amd64 arm64,dist/linux-$(arch)/gpuaas-agent dist/linux-$(arch)/gpuaas-fault)
dist: ## dist/OS-ARCH/: the tool and its policy program for Linux and macOS, the rest for Linux; with the licenses
	@mkdir -p dist
	$(GO) run ./tools/notices dist/THIRD_PARTY_NOTICES $(BINARIES) ./cmd/gpuaasctl $(AGENT) $(FAULT) $(PROBE)
	@set -e; for arch in amd64 arm64; do \
		mkdir -p dist/linux-$$arch; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build $(GOFLAGS_AGENT) -o dist/linux-$$arch/ $(AGENT); \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build $(GOFLAGS_FAULT) -o dist/linux-$$arch/ $(FAULT); \
	done; \
	for os in linux darwin; do for arch in amd64 arm64; do \
		mkdir -p dist/$$os-$$arch; what="$(POLICY)"; \
		if [ $$os = linux ]; then what="$(BINARIES)"; fi; \
		echo "dist/$$os-$$arch"; \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch $(GO) build $(GOFLAGS_BUILD) -o dist/$$os-$$arch/ $$what; \
		GOOS=$$os GOARCH=$$arch $(MAKE) --no-print-directory tool INTO=dist/$$os-$$arch \
			HELPERS="$(DIST_PUSHED) dist/$$os-$$arch/gpuaas-gpu-policy"; \
		if [ $$os = linux ]; then \
			cgo=0; if [ $$os-$$arch = $$($(GO) env GOOS)-$$($(GO) env GOARCH) ]; then cgo=$(PROBE_CGO); fi; \
			CGO_ENABLED=$$cgo GOOS=$$os GOARCH=$$arch $(GO) build $(GOFLAGS_BUILD) -o dist/$$os-$$arch/ $(PROBE); fi; \
		cp LICENSE dist/THIRD_PARTY_NOTICES dist/$$os-$$arch/; \
	done; done

# $(call parts,TARGET...) makes each target, also after one that failed, and ends with what failed: targets and packages.
parts = @log=$$(mktemp) && trap 'rm -f "$$log"' EXIT && for part in $(1); do \
	{ $(MAKE) --no-print-directory $$part 2>&1 || echo "failed: make $$part"; } | tee -a "$$log" || exit 1; done; \
	if grep -q '^failed: ' "$$log"; then \
		echo "=== what failed"; grep -E '^(failed: |FAIL[[:space:]]+[^[:space:]])' "$$log" | sort -u; exit 1; fi

test: ## the fast suite, then on root the lab suite, whatever came of the first; the end names all that failed
	$(call parts,test-fast test-lab)

test-fast: ## all that needs no lab, in three parts; as root it installs the packages that tests run
	$(call parts,test-plain test-mutants test-race)

needs: ## install, as root on Debian or Ubuntu, the packages that the lab and the tests run
	@$(GO) run ./tools/testneeds fast
	@$(GO) run ./tools/testneeds lab

test-plain: ## all that needs no lab, over every row of every table
	@$(GO) run ./tools/testneeds fast
	code=0; $(GO) test $(TESTFLAGS) $(PATIENCE) $(PACKAGES) || code=1; \
	$(GO) test $(TESTFLAGS) $(OLD_TERMINAL) || code=1; exit $$code

test-mutants: ## that the tests of drills find mistakes
	@$(GO) run ./tools/testneeds fast
	$(GO) test $(TESTFLAGS) $(PATIENCE) $(MUTANTS)

# How long each fuzzer searches. FUZZTIME=1m for a longer search.
FUZZTIME ?= 3s

test-fuzz: ## every fuzzer for some seconds (FUZZTIME=3s)
	$(GO) run ./tools/fuzzall -time $(FUZZTIME)

# The race detector needs cgo, so a C compiler. It makes a test five times as slow and finds races in code, not in rows of
# a table: -short leaves rows out, and no test. go vet has seen the sources in the other runs. Where code shares no memory
# of ours between goroutines, it is compiled without the detector: SQLite, which is C translated to Go, regular expressions,
# ciphers, compression and the widths of characters. The tests of the platform need less than half of the time without it,
# those of the live table a ninth.
COMPUTES = modernc.org/... regexp/... crypto/internal/... math/big compress/... hash/... unicode/... \
	github.com/charmbracelet/x/ansi/... github.com/clipperhouse/...
# At its end a program waits a second for races that are still to be found, and tests start thousands of them.
test-race: export GORACE ?= atexit_sleep_ms=20
RACE = -race -short -vet=off $(COMPUTES:%=-gcflags=%=-race=false)

# Their tests start no goroutine and link nothing of ours that does, so there is no race to find; a test of tools/house
# compares the list with the sources.
UNRACED = agent/outbox agent/recorder agent/update chaos/step diag/record diag/render diag/evidence gpu/kmsg \
	gpu/policy/judge gpu/report gpu/state gpu/status gpu/xid ops/history tools/catalogen internal/clean \
	tools/fuzzall tools/testkit/goldentest tools/house tools/testkit/html5 tools/notices internal/owned tools/testkit/porttest \
	internal/sleep tools/statements internal/strictyaml tools/testneeds internal/xunit internal/page diag/trust
RACED   = $(filter-out $(addprefix github.com/gpuaas/gpuaasctl/,$(UNRACED)),$(shell $(GO) list $(PACKAGES)))

test-race: ## a sample of the rows with the race detector
	@$(GO) run ./tools/testneeds fast
ifneq ($(CC_FOUND),)
	code=0; $(if $(RACED),CGO_ENABLED=1 $(GO) test $(RACE) $(TESTFLAGS) $(PATIENCE) $(RACED) || code=1;) \
	CGO_ENABLED=1 $(GO) test $(RACE) $(TESTFLAGS) $(OLD_TERMINAL) || code=1; exit $$code
else
	@echo "note: no C compiler, so no run with the race detector"
endif

# The lab suite's lab has six nodes, and tests break up to five of them at once: most of the time a test waits, so that
# four at once needed 0.7 of a processor for all of the lab.
LAB_NODES ?= 5
# Which of its tests run, and which do not: expressions of go test, or nothing for all.
LAB_RUN  ?=
LAB_SKIP ?=

test-lab: ## walks, faults and drills on real machines
ifneq ($(shell id -u),0)
	@echo "lab suite skipped: needs root"
else ifneq ($(shell uname -s),Linux)
	@echo "lab suite skipped: needs Linux"
else
	@$(GO) run ./tools/testneeds lab
	@$(MAKE) --no-print-directory build drill-agent
	@was=; if bin/gpuaasctl lab status >/dev/null 2>&1; then was=up; \
		echo "note: the lab that is up is taken down for the tests, and a new one raised afterwards"; bin/gpuaasctl lab down; fi; \
	GPUAASCTL_CRASH_SEED=$${GPUAASCTL_CRASH_SEED:-$$(date -u +%y%j%H)}; export GPUAASCTL_CRASH_SEED; \
	echo "crash matrix: the sample of GPUAASCTL_CRASH_SEED=$$GPUAASCTL_CRASH_SEED"; \
	GPUAASCTL_LAB_TESTS=1 GPUAASCTL_BIN=$(CURDIR)/bin $(GO) test -count=1 -p 1 -parallel $(LAB_NODES) -timeout 40m -run '$(LAB_RUN)' \
		-skip '$(LAB_SKIP)' \
		./lab ./lab/e2e ./chaos/node; code=$$?; \
	if bin/gpuaasctl lab status >/dev/null 2>&1; then bin/gpuaasctl lab down; fi; \
	if [ -n "$$was" ]; then bin/gpuaasctl lab up; fi; exit $$code
endif

# A program that this host happens to have hides that nothing installs it.
test-bare: ## the fast suite in a bare Debian that has Go, git and make; then the lab suite's packages (root)
	@$(MAKE) --no-print-directory bare ARGS="$(PACKAGES)"

test-bare-lab: ## make demo and a part of the lab suite in a bare Debian, where no lab is up (root)
	@$(MAKE) --no-print-directory bare ARGS=lab

bare:
ifneq ($(shell id -u),0)
	@echo "tests in a bare Debian skipped: need root"
else ifneq ($(shell uname -s),Linux)
	@echo "tests in a bare Debian skipped: need Linux"
else
	$(GO) run ./tools/baretest $(ARGS)
endif

# What finds barriers in a page. It is downloaded for the run, and no part of any program.
AXE ?= axe-core@4.14.1

test-html: ## pages of walks in Chromium, checked by axe-core, which npm installs into a temporary folder
	@$(GO) run ./tools/testneeds html
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && npm install --silent --no-audit --no-fund --prefix "$$dir" $(AXE) && \
		GPUAASCTL_AXE="$$dir/node_modules/axe-core/axe.min.js" $(GO) test -count=1 -v -run 'TestPages' ./golden

# make is asked again, since a C compiler may have come.
demo: ## a lab of real machines, and one walk over it
	@$(GO) run ./tools/testneeds gpus
	@$(MAKE) --no-print-directory build
	bin/gpuaasctl lab up
	bin/gpuaasctl preflight --profile lab --node-id compute-node-01 --allocation-id alloc-01

drills: ## every drill once, on a lab, and one table of what came of them
	@$(GO) run ./tools/testneeds gpus
	@$(MAKE) --no-print-directory build drill-agent
	bin/gpuaasctl lab up
	bin/gpuaasctl chaos run --book everything --profile lab --node-id compute-node-01 --allocation-id alloc-01
	bin/gpuaasctl chaos residue --profile lab

# Nodes on which cells are tried at once; one that is alone takes an hour.
CRASH_NODES ?= 4

crash-matrix: ## every step of a drill, and everything that can die at it, on a lab of its own (CRASH_NODES=4)
	@$(GO) run ./tools/testneeds lab
	@$(MAKE) --no-print-directory build
	@$(GO) test -c -o bin/crash-matrix.test ./lab/e2e
	@was=; if bin/gpuaasctl lab status >/dev/null 2>&1; then was=up; \
		echo "note: the lab that is up is taken down for the matrix, and a new one raised afterwards"; bin/gpuaasctl lab down; fi; \
	bin/gpuaasctl lab up --nodes $(CRASH_NODES) && (cd lab/e2e && GPUAASCTL_LAB_TESTS=1 GPUAASCTL_CRASH=all GPUAASCTL_BIN=$(CURDIR)/bin \
		$(CURDIR)/bin/crash-matrix.test -test.run TestCrashMatrix -test.parallel $(CRASH_NODES) -test.timeout 4h); code=$$?; \
	bin/gpuaasctl lab down; if [ -n "$$was" ]; then bin/gpuaasctl lab up; fi; exit $$code

lint: ## gofmt, go vet, and golangci-lint where it is installed, else staticcheck
	@code=0; bad=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$bad" ]; then echo "not formatted by gofmt:"; echo "$$bad"; code=1; fi; \
	echo $(GO) vet ./...; $(GO) vet ./... || code=1; \
	if command -v golangci-lint >/dev/null; then echo golangci-lint run; golangci-lint run || code=1; \
	else echo $(GO) run $(STATICCHECK) ./...; $(GO) run $(STATICCHECK) ./... || code=1; fi; exit $$code

golden: ## write every golden file again; look at the difference before you commit it
	GPUAASCTL_UPDATE_GOLDEN=1 $(GO) test -count=1 ./...

schema: ## diag/schema/*.json, chaos/schema/*.json and gpu/policy/schema/*.json from the Go types
	$(GO) generate ./diag/schema ./chaos/schema ./gpu/policy/schema

catalogue: ## the Go tables of diag/catalogue/*.yaml
	$(GO) generate ./diag

picture: ## pages of docs/ that are made: two pictures, hops, drills, runbook; the made parts of README.md and of others
	$(GO) run ./tools/docgen

bench: ## one table of ratios
	@$(GO) run ./tools/testneeds bench
	$(GO) run ./tools/bench

bench-quick: ## the same in under two minutes
	@$(GO) run ./tools/testneeds bench
	$(GO) run ./tools/bench -quick

clean: ## remove what was built
	rm -rf bin dist

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14
