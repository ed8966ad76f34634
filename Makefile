# Targets for developers. Run `make` without a target for the list. hack/dev builds everything and runs the tests.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

export VERSION ?= 0.2.0
# Programs are built once and kept in this folder, which git ignores.
export LVMS_CACHE ?= $(CURDIR)/.cache
BIN := $(LVMS_CACHE)/bin
LAB := $(BIN)/lab
LAB_NAME ?= demo
ARGS ?=
# When make began, and whether nothing was built on this machine before: for the times in the README.
export LVMS_BEGIN := $(or $(LVMS_BEGIN),$(shell date +%s))
export LVMS_FIRST := $(or $(LVMS_FIRST),$(if $(wildcard $(shell go env GOCACHE)/*),no,yes))

# All builds use the same flags, so that no package is compiled twice. -trimpath keeps paths of this machine out of the
# programs. Programs have no DWARF: it would take a seventh of the time to compile. For a debugger, build without make.
export GOFLAGS := $(sort $(GOFLAGS) -buildvcs=false -gcflags=all=-dwarf=false -trimpath)
export CGO_ENABLED ?= 0

##@ Start here

.PHONY: help
help: ## Print this help.
	@awk 'BEGIN {FS = ":.*## "; print "make TARGET [VARIABLE=value]"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ready dev ## Run a demo on a real cluster: blank disks, a mounted volume, a restored snapshot.
	@$(BIN)/dev demo $(LAB_NAME)

.PHONY: test
test: ready-tests dev ## Install the required packages. Run unit, API server and console tests, LVM's contract, core scenes and one story on a cluster.
	@$(BIN)/dev test

# lint, verify and the race detector reuse the results of files that have not changed.
.PHONY: check
check: ready-tests dev ## Run lint, verify and the race detector, then other items as time allows: make check UNTIL=30m (a duration, or @SECONDS since 1970).
	@$(BIN)/dev check $(if $(UNTIL),-until $(UNTIL))

.PHONY: test-long
test-long: ready-tests dev ## Run all items that have not passed at this commit, or some: make test-long ITEMS="e2e/copies bare/contract/"
	@$(BIN)/dev long $(ITEMS)

.PHONY: items
items: dev ## List the items: all tests, in parts of at most 30 minutes, with the last result of each.
	@$(BIN)/dev items

##@ Change something

.PHONY: generate
generate: dev ## Generate everything from its source: deep copies, CRDs, RBAC, webhooks, rules, dashboards, bundle, catalog, chart, TypeScript types.
	@$(BIN)/dev build controller-gen
	@hack/generate $(BIN)/controller-gen
	@$(MAKE) chart bundle catalog
	@hack/console packages
	@npm --prefix console-plugin/web run --silent types

# Tests fail if a page is stale.
.PHONY: references
references: ## Generate pages of the documentation from the code, and tables from the results of tests in test/lane/results.tsv.
	@go test ./test/reference ./cli ./cmd/lvms ./monitoring ./test/agentaccess ./test/arch ./test/inputs ./test/lane ./test/sanity -run TestReference -count 1 -update

.PHONY: record
record: dev ## Add the results of tests on this machine to test/lane/results.tsv: make record FILES="FILE..."
	@$(BIN)/dev record $(FILES)

.PHONY: lint
lint: dev ## Check the Go code, the prose of documents, comments and messages, and the commit subjects.
	@$(BIN)/dev long lint

.PHONY: metrics
metrics: # Print the largest types, interfaces and packages, and what is above its limit.
	@go test ./test/arch -run TestSizes -count 1 -v

.PHONY: format
format: dev
	@$(BIN)/dev build golangci-lint && $(BIN)/golangci-lint fmt ./...

# TopoLVM's chart is that of the module. Its dependency, which is disabled, is left out, because helm would look for it.
TOPOLVM_TEST := test/e2e/topolvm

.PHONY: topolvm-manifests
topolvm-manifests: dev
	@$(BIN)/dev build helm
	@chart=$$(mktemp -d) && trap 'rm -r "$$chart"' EXIT && \
		cp -r --no-preserve=mode "$$(go list -m -f '{{.Dir}}' github.com/topolvm/topolvm)/charts/topolvm/." "$$chart" && \
		rm "$$chart/Chart.lock" && sed -i '/^dependencies:/,/condition:/d' "$$chart/Chart.yaml" && \
		header="# TopoLVM's Helm chart $$(sed -n 's/^version: //p' "$$chart/Chart.yaml") of the module github.com/topolvm/topolvm $$(go list -m -f '{{.Version}}' github.com/topolvm/topolvm), rendered with values.yaml" && \
		template() { $(BIN)/helm template topolvm "$$chart" --namespace topolvm-system "$$@"; } && \
		{ echo "$$header by: make topolvm-manifests" && template --values $(TOPOLVM_TEST)/values.yaml; } >$(TOPOLVM_TEST)/chart.yaml && \
		{ echo "$$header, in which topolvm.io is replaced, and useLegacy by: make topolvm-manifests" && \
		sed 's/topolvm\.io/topolvm.cybozu.com/' $(TOPOLVM_TEST)/values.yaml | template --values - --set useLegacy=true; } >$(TOPOLVM_TEST)/earlier.yaml

##@ Build and release

.PHONY: image
image: dev ## Build the images of the operator and of must-gather as OCI archives, without a container engine. Needs Node.js 20.
	@$(BIN)/dev build image gather-image

.PHONY: images
images: dev ## Build both images for amd64, arm64, ppc64le and s390x, and an archive of each with all four.
	@$(BIN)/dev build images gather-images

.PHONY: cli
cli: dev ## Build the kubectl plugin for Linux, macOS and Windows, and its Krew manifest, into .cache/cli.
	@$(BIN)/dev build cli

# A release sets these by digest.
BUNDLE_IMAGE ?= quay.io/lvm-storage/lvms-operator:v$(VERSION)
MUST_GATHER_IMAGE ?= quay.io/lvm-storage/lvms-must-gather:v$(VERSION)
CATALOG_BUNDLE_IMAGE ?= quay.io/lvm-storage/lvms-operator-bundle:v$(VERSION)
# Whether BUNDLE_IMAGE has the Go Cryptographic Module: certified for the images of `make images`, off for that of `make image`.
BUNDLE_FIPS_MODULE ?= off
export BUNDLE_IMAGE MUST_GATHER_IMAGE CATALOG_BUNDLE_IMAGE BUNDLE_FIPS_MODULE

.PHONY: bundle
bundle: dev ## Generate the OLM bundle from config/: make bundle VERSION=X.Y.Z BUNDLE_IMAGE=NAME@sha256:... MUST_GATHER_IMAGE=NAME@sha256:...
	@$(BIN)/dev build bundle
	@$(BIN)/bundle -version $(VERSION) -image $(BUNDLE_IMAGE) -must-gather-image $(MUST_GATHER_IMAGE) -fips-module $(BUNDLE_FIPS_MODULE) -out bundle

.PHONY: catalog
catalog: dev ## Add the bundle to the file-based catalog: make catalog VERSION=X.Y.Z CATALOG_BUNDLE_IMAGE=NAME@sha256:...
	@$(BIN)/dev build catalog programs/opm
	@$(BIN)/catalog -opm $$($(LAB) programs opm)/opm -bundle bundle -image $(CATALOG_BUNDLE_IMAGE) -out catalog

.PHONY: chart
chart: dev ## Complete the Helm chart, and render manifests in config/ and the page of its values from it: make chart VERSION=X.Y.Z BUNDLE_IMAGE=NAME@sha256:...
	@$(BIN)/dev build chart
	@$(BIN)/chart -version $(VERSION) -image $(BUNDLE_IMAGE)

.PHONY: chart-package
chart-package: dev
	@$(BIN)/dev build helm
	@$(BIN)/helm lint --quiet charts/lvms-operator
	@$(BIN)/helm package charts/lvms-operator --destination $(LVMS_CACHE)/chart

.PHONY: docs
docs: dev ## Build the documentation as a static site in .cache/site, and check its links. PORT=1313 serves it and reloads changed pages.
	@$(BIN)/dev build hugo
ifdef PORT
	@$(BIN)/hugo server --source hack/site --noBuildLock --panicOnWarning --renderToMemory --port $(PORT)
else
	@$(BIN)/hugo --source hack/site --destination $(LVMS_CACHE)/site --cleanDestinationDir --noBuildLock --panicOnWarning >/dev/null
	@go run ./hack/site $(LVMS_CACHE)/site
endif

.PHONY: docs-images
docs-images: dev # Update the screenshots of the console in docs/images.
	@$(BIN)/dev pictures

##@ Install without OLM

# On OpenShift, set CONFIG=config/openshift.
CONFIG ?= config/default
NAMESPACE ?= openshift-lvm-storage

.PHONY: deploy
deploy: ## Install the operator on the cluster that kubectl uses: make deploy IMG=registry.example.com/lvms-operator@sha256:... NAMESPACE=openshift-lvm-storage
	@NAMESPACE="$(NAMESPACE)" hack/deploy $(CONFIG) "$(IMG)"

.PHONY: undeploy
undeploy: ## Remove the operator, but not the namespace, after the LVMCluster was deleted: make undeploy NAMESPACE=openshift-lvm-storage
	@NAMESPACE="$(NAMESPACE)" hack/undeploy $(CONFIG)

##@ Try something

# SEED determines the random steps; the test prints the seed that it uses. STEPS is a file with the steps to run instead:
# a failed test prints them.
FOR ?= 10m

.PHONY: soak
soak: packages ## Run random actions of users and administrators, and faults, on a lab cluster: make soak SEED=1 FOR=2h, or STEPS=FILE.
	@$(BIN)/dev build image programs/cluster
	@go run ./test/soak --image $(LVMS_CACHE)/image/lvms-operator.tar --for $(FOR) $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--replay $(STEPS)) --logs $(LVMS_CACHE)/soak-logs

.PHONY: bench
bench: packages ## Measure: make bench NAME=node, volumes, copies, neighbor, moves, io, scale, scrape or gather (docs/reference/performance.md).
	@hack/bench $(NAME) $(ARGS)

.PHONY: lab-up
lab-up: preflight packages ## Start a lab cluster of two nodes with blank disks, without the operator.
	@$(LAB) up --name $(LAB_NAME) --nodes 2 --disks 8G,8G --snapshots

.PHONY: lab-shell
lab-shell: dev ## Open a shell with kubectl configured for the lab cluster, or on a node: make lab-shell NODE=NAME.
	@$(LAB) shell --name $(LAB_NAME) $(NODE)

.PHONY: lab-kubectl
lab-kubectl: dev
	@$(LAB) kubectl --name $(LAB_NAME) -- $(ARGS)

.PHONY: console
console: dev ## Serve the console plugin for the lab cluster, for a browser on this machine: make console LISTEN=127.0.0.1:9000.
	@$(BIN)/dev build console-plugin console-host bridge
	@$(BIN)/bridge --lab $(LVMS_CACHE)/labs/$(LAB_NAME) --plugin $(BIN)/console-plugin --host $(CURDIR)/console-plugin/web/host/dist --prometheus http://127.0.0.1:9090 --listen $(or $(LISTEN),127.0.0.1:9000)

.PHONY: lab-down
lab-down: dev ## Stop the lab cluster and delete its files.
	@$(LAB) down --name $(LAB_NAME)

# Find out early whether the machine can run the lab: check its hardware and network, install packages, boot a node.
# This takes seconds once the packages are installed. Tests boot a node when the first item needs one: until the kernel
# of the nodes is built, others use the processor that its steps leave idle.
.PHONY: ready ready-tests preflight preflight-image packages packages-tests boot
ready: preflight-image packages boot
ready-tests: preflight-image packages-tests
preflight:
	@hack/preflight
preflight-image:
	@hack/preflight image
packages: dev
	@$(LAB) packages
packages-tests: dev
	@$(LAB) packages --tests
boot: dev
	@$(LAB) doctor --boot

# Go knows whether a program is up to date.
.PHONY: dev
dev:
	@go build -o $(BIN)/dev ./hack/dev && $(BIN)/dev build lab

.PHONY: clean
clean:
	@rm -rf $(LVMS_CACHE)
