# Ephor's build. `make help` lists the targets; `make test` is the gate.

SHELL := /bin/bash
.DEFAULT_GOAL := help
export CGO_ENABLED ?= 0
# With the same flags everywhere each package is compiled once, also in another clone. Without its debugging pages (the tag) gRPC does not
# link html/template, which would make the linker keep all methods.
export GOFLAGS ?= -buildvcs=false -trimpath -tags=grpcnotrace

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo ---)
TIME    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo ---)
include home.env
CLI     := $(EPHOR_HOME)/internal/cli
LDFLAGS := -s -w -X $(CLI).version=$(VERSION) -X $(CLI).commit=$(COMMIT) -X $(CLI).buildTime=$(TIME)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 26

.PHONY: build
build: ## build bin/ephor
	@[ -x bin/ephor ] || echo "Building bin/ephor (the first time a minute or two on two cores) ..."
	go build -ldflags "$(LDFLAGS)" -o bin/ephor ./cmd/ephor

.PHONY: demo
demo: build ## start a control plane with Ephor on this machine; ARGS=--once ends after the demonstration
	go run ./hack/demo $(ARGS)

.PHONY: test
test: ## the gate: lint, generated files, unit tests, floors, conformance, end-to-end; ARGS=-write writes the list of times
	go run ./hack/gate $(ARGS)

.PHONY: check
check: ## a quick try before a commit: lint, floors, and the unit tests of what differs from the branch main
	go run ./hack/gate -check

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	hack/lint.sh

.PHONY: generate
generate: ## regenerate deepcopy functions, CRDs and docs/reference
	hack/generate.sh

.PHONY: chart
chart: ## the chart: lint, schema, what each switch changes, flags
	hack/helm.sh
	go test -count=1 ./charts/

.PHONY: manifests
manifests: ## build/install.yaml, the chart rendered for clusters without Helm: VERSION=1.2.3, REGISTRY=HOST, VALUES=FILE
	VERSION=$(if $(filter command environment,$(word 1,$(origin VERSION))),$(VERSION)) REGISTRY=$(REGISTRY) VALUES=$(VALUES) hack/manifests.sh

.PHONY: image
image: ## build/image, an OCI image layout for amd64 and arm64, without a Docker daemon
	hack/image.sh

.PHONY: release
release: ## build/release, all files of a release: VERSION=1.2.3; KEY=FILE signs it, PUSH=HOST/PATH pushes image and chart
	VERSION=$(if $(filter command environment,$(word 1,$(origin VERSION))),$(VERSION)) hack/release.sh

.PHONY: release-check
release-check: ## try the files in build/release, and the chart on a real API server: VERSION=1.2.3; RELEASE=FOLDER, PLATFORMS=LIST are those of another release
	EPHOR_RELEASE="$(abspath $(or $(RELEASE),build/release))" VERSION="$(VERSION)" PLATFORMS="$(PLATFORMS)" go test -C hack/tools/release -count=1 -timeout 20m -v .
	EPHOR_RELEASE="$(abspath $(or $(RELEASE),build/release))" VERSION="$(VERSION)" go test -count=1 -timeout 20m -v -run '^TestRelease$$' ./e2e/quickstart/

.PHONY: reproduce
reproduce: ## make a release twice in fresh clones and compare the files: VERSION=1.2.3, PLATFORMS=LIST, CACHE=fresh compiles everything again
	hack/reproduce.sh $(VERSION)

.PHONY: conformance
conformance: build ## the public suite on a real API server; DIRS="a b" selects a part, SHARDS=n uses n control planes, EXTRA=1 runs all
	go run ./hack/conformance -dirs "$(DIRS)" -shards "$(or $(SHARDS),1)" $(if $(EXTRA),-extra) $(ARGS)

SIGNERS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ephor-signatures

.PHONY: matrix
matrix: build ## tests on several versions of Kubernetes: VERSIONS="1.36 1.37", ROWS="cel webhooks" runs some rows; writes docs/operating/versions.md
	go run ./hack/matrix -versions "$(VERSIONS)" -rows "$(ROWS)"

.PHONY: signatures
signatures: ## compare with cosign and notation on the same signed images; every difference needs a reason
	go run -C hack/signatures . -build -tools $(SIGNERS)
	EPHOR_SIGNATURE_PROGRAMS=$(SIGNERS) go test -count=1 -v -timeout 30m -run '^TestTools$$' ./internal/sigverify/

.PHONY: signatures-fixture
signatures-fixture: ## recreate the signed images of the tests with cosign, notation and oras (half an hour the first time)
	go run -C hack/signatures .

.PHONY: conformance-data
conformance-data: ## the public data of the policy language, with a list of missing features
	go test -count=1 -v ./conformance/

.PHONY: room
room: ## the public data and the examples with a quarter of all budgets
	go test -count=1 -tags=quarter -run 'TestConformance' ./conformance/
	go test -count=1 -tags=quarter ./examples/

.PHONY: conformance-cli
conformance-cli: ## the test directories of the public data through `ephor test`
	set -o pipefail; go test -count=1 -v -run 'TestConformance/^(cli|policies)$$' ./conformance/ | grep -vE '^ *(=== |--- PASS)'

.PHONY: conformance-differential
conformance-differential: ## public policies on changed resources, against the recorded results and objects
	set -o pipefail; go test -count=1 -v -run 'TestConformance/^differential$$' ./conformance/ | grep -vE '^ *(=== |--- PASS)'

.PHONY: e2e
e2e: build ## the end-to-end tests on a real API server; RUN=rollout selects one folder below e2e/
	go test -count=1 -timeout 15m $(if $(RUN),-v ./e2e/$(RUN)/...,./e2e/... ./internal/devcluster/)

.PHONY: test-ui
test-ui: build ## test the dashboard on a real API server and the pages of the guide, in a headless Chromium
	EPHOR_UI=chromium go test -count=1 -timeout 10m ./e2e/dashboard/ ./e2e/site/

.PHONY: screenshot
screenshot: build ## write the pictures docs/images/dashboard*.png with the tests of the pages
	EPHOR_UI=chromium EPHOR_SCREENSHOT="$(CURDIR)/docs/images/dashboard.png" go test -count=1 -timeout 10m -run '^Test(|Decisions|Impact)Page$$' ./e2e/dashboard/

.PHONY: site
site: ## write the guide as static pages to build/site: open build/site/index.html
	go run -C hack/tools/site . -source "$(CURDIR)" "$(CURDIR)/build/site"
	@echo "open build/site/index.html"

.PHONY: promql
promql: build ## run every query of the dashboard, the alerts and docs/operating/metrics.md on a running controller
	go test -count=1 -v -timeout 15m -run '^TestMetrics$$' ./e2e

.PHONY: soak
soak: build ## load and faults on real API servers, for minutes; PARTS="load reviews" selects parts, SHORT=1 is a quick try
	EPHOR_SOAK="$(or $(PARTS),all)" EPHOR_SOAK_SHORT=$(SHORT) go test -count=1 -v -timeout 90m ./soak/ | { grep --line-buffered -E '^(soak: |--- |panic|    [a-z_]+_test.go|ok|FAIL)' || true; }; exit $${PIPESTATUS[0]}

.PHONY: simulate
simulate: ## the controllers on virtual time, under SEEDS=10000 schedules of actions and faults, beginning with FROM=0; SEED=7 runs and shrinks one
	go test -count=1 -timeout 24h $(if $(SEED),-v -run '^TestSeeds$$' ./internal/simulation -seed $(SEED) -trace,-run '^TestSeeds$$' ./internal/simulation -seeds $(or $(SEEDS),10000) -from $(or $(FROM),0))

.PHONY: home
home: ## move the project: NAME=github.com/OWNER/NAME REGISTRY=ghcr.io/OWNER CONTACT=ADDRESS; then make generate
	go run ./hack/home -name "$(NAME)" -registry "$(REGISTRY)" $(if $(CONTACT),-contact "$(CONTACT)")

.PHONY: deps
deps: ## the modules that bin/ephor links: version, number of packages, and what imports them
	@hack/deps.sh

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME each (default 30s); FUZZ=internal/seal selects some, LIST=1 lists them
	hack/fuzz.sh

.PHONY: bench
bench: build ## every figure with its target
	go run ./bench

.PHONY: bench-floor
bench-floor: build ## one admission review against a no-op webhook
	go run ./bench floor

.PHONY: bench-policies
bench-policies: build ## one review with many policies that do not match
	go run ./bench policies

.PHONY: bench-library
bench-library: build ## the classic policies of EPHOR_CONFORMANCE/policies on 1,000 Pods
	go run ./bench library

.PHONY: bench-images
bench-images: build ## reviews of Pods with signed images: known, read before, and from a registry that is near or 40 ms away
	go run ./bench images

.PHONY: bench-compare
bench-compare: build ## the same policies evaluated by Ephor, by the API server and by peers, half an hour (PEER="PATH/kyverno PATH/gator ...", see docs/migrating/comparison.md); writes the figures of README.md and that page
	go run ./bench compare $(PEER)

.PHONY: bench-reports
bench-reports: build ## the cost of reports: the first scan of 5,000 Pods by 18 policies, changes, idle time, 50,000 Pods (SHORT=1: less idle time)
	go run ./bench reports

.PHONY: bench-decisions
bench-decisions: build ## the store of decisions in a file: CPU and bytes of each, a query by policy and day among ten million (SHORT=1: one million)
	go run ./bench decisions

.PHONY: bench-recording
bench-recording: build ## CPU and memory of the admission process with decisions and without, in turns (SHORT=1: fewer reviews)
	go run ./bench recording

.PHONY: bench-background
bench-background: build ## generate rules for 1,000 Namespaces, changes of a copied source, Namespaces deleted meanwhile
	go run ./bench background

.PHONY: bench-go
bench-go: ## the Go benchmarks beside the code, with allocations
	go test -run '^$$' -bench . -benchmem ./internal/...
