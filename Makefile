# Everything a developer does. `make` alone prints the list.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VERSION ?= 0.2.0
# Programs that are built once and kept: one ignored folder for all of them.
export LVMS_CACHE ?= $(CURDIR)/.cache
BIN := $(LVMS_CACHE)/bin
LDFLAGS := -s -w -X github.com/lvm-storage/lvm-operator/internal/version.Version=$(VERSION)
LAB := $(BIN)/lab
LAB_NAME ?= demo
ARGS ?=

# One set of flags for everything, so that no package is compiled twice; and no path of this machine in what is built.
export GOFLAGS ?= -buildvcs=false -trimpath
export CGO_ENABLED := 0

# Tests run with the race detector, which needs C. It does not run inside a lab node: User Mode Linux has not the address
# space that it asks for. What runs there runs on fakes as a unit test too. `make lint` vets.
RACE := CGO_ENABLED=1 go test -race -vet=off

# The short lane is the default; hack/lane names the other one.
LONG := $(filter test-long,$(LVMS_LANE))
SHORT := $(if $(LONG),,-short)
E2E_FLAGS := -ginkgo.v $(if $(LONG),,-ginkgo.label-filter='!long')

##@ Start here

.PHONY: help
help: ## Print this list.
	@awk 'BEGIN {FS = ":.*## "; print "make TARGET [VARIABLE=value]"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ready image $(BIN)/bundle $(BIN)/catalog $(BIN)/bridge ## A real cluster, blank disks, a mounted volume, a restored snapshot: in one run.
	@hack/step "build demo" go build -o $(BIN)/demo ./test/demo
	@hack/console host
	@$(BIN)/demo --name $(LAB_NAME) --image $(IMAGE) --version $(VERSION) --bridge $(BIN)/bridge --plugin $(BIN)/console-plugin --host $(CONSOLE)/host/dist

.PHONY: test
test: ready-tests ## Install what is needed, run every kind of check once. Ends with a table of the time it took.
	@hack/lane test artifacts lint verify test-unit test-fuzz -- test-env test-console test-lab -- test-e2e

.PHONY: test-long
test-long: ready-tests ## All of it, again for every crash point, host flavor and RAID level, with power cuts and soak: before a release.
	@hack/lane test-long artifacts lint verify test-unit test-fuzz -- test-env test-env-oldest test-console test-lab -- test-e2e test-e2e-flavors soak

# Everything that can fail later is tried first, in seconds once the packages are there: what the machine has and reaches, and the boot of
# a node.
.PHONY: ready ready-tests
ready: preflight-image packages boot
ready-tests: preflight-image packages-tests boot

# What the targets of a lane run on. A lane builds it once, before it runs targets beside each other, which would write the same files.
PROGRAM_SETS := kubernetes containerd container snapshot-controller olm $(if $(LONG),service-ca prometheus-operator network-policies olm-v1 kubernetes-oldest)

.PHONY: artifacts
artifacts: image must-gather-image upstream-image next-image $(if $(LONG),previous) $(BIN)/bundle $(BIN)/catalog $(BIN)/bridge console-host
	@hack/step "programs of the lab" sh -c '"$$0" programs "$$@" >/dev/null' $(LAB) $(PROGRAM_SETS)

# $(call wants,TARGETS): what a test needs, unless its lane has built that.
wants = $(if $(LVMS_LANE_BUILT),,$(1))

##@ Tests, one by one

.PHONY: test-unit
test-unit: ## Tables, plans, decoders, builders, import rules. Runs anywhere.
	@hack/step "unit tests" env $(RACE) ./...

.PHONY: test-fuzz
test-fuzz: ## Every decoder with made-up input, a bounded number of it: FUZZTIME=1m, or 30000x.
	@FUZZTIME=$(or $(FUZZTIME),$(if $(LONG),200000x,5000x)) hack/test-fuzz

.PHONY: test-env
test-env: $(call wants,$(LAB)) ## Controllers and schema against a real kube-apiserver and etcd.
	@$(call test-api,kubernetes,API server tests)

.PHONY: test-env-oldest
test-env-oldest: $(call wants,$(LAB)) ## The same against the oldest Kubernetes that the bundle admits.
	@$(call test-api,kubernetes-oldest,API server tests on the oldest Kubernetes)

# $(call test-api,PROGRAMS,STEP): the tests with the tag env, against the API server of a set of the lab's programs.
test-api = assets=$$($(LAB) programs $(1)) && KUBEBUILDER_ASSETS=$$assets KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m hack/step "$(2)" \
	env $(RACE) -tags env -p 1 -count 1 ./test/env/... ./controllers/... ./internal/... ./must-gather/...

.PHONY: test-lab
test-lab: $(call wants,packages image) ## The lab itself, and the LVM contract on real LVM in a bare node.
	@hack/step "lab tests" env $(RACE) $(SHORT) -tags lab -p 1 -count 1 -timeout 20m ./test/lab/...
	@hack/test-bare

# What the stories' API servers were asked for by the product.
RIGHTS := $(LVMS_CACHE)/rights

.PHONY: test-e2e
test-e2e: $(call wants,packages artifacts) ## User stories on a real cluster with real LVM.
	@rm -rf $(RIGHTS) && mkdir -p $(RIGHTS)
	@LVMS_RIGHTS=$(RIGHTS) LVMS_IMAGE=$(IMAGE) LVMS_GATHER_IMAGE=$(GATHER_IMAGE) LVMS_GATHER=$(BIN)/gather LVMS_UPSTREAM_IMAGE=$(UPSTREAM_IMAGE) LVMS_NEXT_IMAGE=$(NEXT_IMAGE) LVMS_PREVIOUS=$(PREVIOUS) hack/step "end-to-end tests" go test $(SHORT) -tags e2e -count 1 -timeout $(if $(LONG),120m,50m) ./test/e2e/... $(E2E_FLAGS)
	@LVMS_RIGHTS=$(RIGHTS) hack/step "rights" go test -tags e2e -count 1 ./test/rights

.PHONY: test-previous
test-previous: packages image previous $(BIN)/bundle $(BIN)/catalog ## The upgrade from the version before this one, while Pods write. The long lane has it in test-e2e.
	@LVMS_IMAGE=$(IMAGE) LVMS_PREVIOUS=$(PREVIOUS) hack/step "upgrade tests" go test -tags e2e -count 1 -timeout 60m ./test/e2e/previous -ginkgo.v

# npm needs Node.js, which nothing else here does; so does the plugin, which is built into its server.
CONSOLE := $(CURDIR)/console-plugin/web
NPM := npm --prefix $(CONSOLE)

.PHONY: test-console
test-console: console-browser $(call wants,console-build $(BIN)/bridge console-host) ## The console plugin: types, units, bundle, licences; in Chromium over a real API server. Wants Node.js 20.
	@cd $(CONSOLE) && ../../hack/step "console types" $(NPM) run --silent check
	@cd $(CONSOLE) && ../../hack/step "console unit tests" $(NPM) run --silent test
	@cd $(CONSOLE) && ../../hack/step "console bundle" $(NPM) run --silent budget && $(NPM) run --silent licences
	@assets=$$($(LAB) programs kubernetes) && cd $(CONSOLE) && KUBEBUILDER_ASSETS=$$assets KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m \
		../../hack/step "console browser tests" $(BIN)/bridge --plugin $(BIN)/console-plugin --host host/dist --rules $(CURDIR)/monitoring/tests/rules.yaml $(NPM) run --silent browser

.PHONY: docs-images
docs-images: console-browser $(call wants,console-build $(BIN)/bridge console-host) ## Take the pictures of the console in docs/images again.
	@assets=$$($(LAB) programs kubernetes) && cd $(CONSOLE) && KUBEBUILDER_ASSETS=$$assets KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m \
		../../hack/step "pictures" $(BIN)/bridge --plugin $(BIN)/console-plugin --host host/dist --rules $(CURDIR)/monitoring/tests/rules.yaml \
		node --import tsx browser/pictures.ts $(CURDIR)/docs/images

# SEED decides the steps of the walk; the target prints the one that it takes. FOR is how long it walks. STEPS is a file with steps to carry
# out instead, as a failed walk prints them.
FOR ?= 10m

.PHONY: soak
soak: $(call wants,packages image) ## A random walk of users, administrators and faults on a real cluster: make soak SEED=1 FOR=2h, or STEPS=FILE.
	@go build -o $(BIN)/soak ./test/soak
	@hack/step "soak $(FOR)" $(BIN)/soak --image $(IMAGE) --for $(FOR) $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--replay $(STEPS)) --logs $(LVMS_CACHE)/soak-logs

.PHONY: test-e2e-flavors
test-e2e-flavors: $(call wants,packages image) ## The main user story on clusters whose nodes are other hosts than Debian 12's: hack/test-e2e-flavors FLAVOR...
	@LVMS_IMAGE=$(IMAGE) hack/test-e2e-flavors

.PHONY: bench-node
bench-node: packages ## Processes and API writes at rest, time to see a disk, time to a volume group against bare LVM, on a lab node.
	@hack/bench-node

.PHONY: bench-volumes
bench-volumes: packages ## Create, remove, snapshot, grow, publish: against bare LVM and TopoLVM's lvmd, on a lab node. Prints a table.
	@hack/bench-volumes

.PHONY: bench-scale
bench-scale: packages $(BIN)/lvms $(LAB) ## The operator with 1,000 nodes and 20,000 volumes that are played: memory, requests, times. Prints a table.
	@hack/bench-scale

.PHONY: bench-scrape
bench-scrape: ## Time and size of a scrape of a node agent, against what every Go program tells of itself.
	@hack/step "bench-scrape" go test ./cmd/lvms -run XXX -bench Scrape -benchtime 1000x

.PHONY: bench-gather
bench-gather: $(LAB) ## Must-gather of 200 nodes with 4,000 volumes: time and size of its parts, with a real API server and nodes that are played.
	@assets=$$($(LAB) programs kubernetes) && KUBEBUILDER_ASSETS=$$assets KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m hack/step "bench-gather" go test -tags env -run XXX -bench Gather -benchtime 1x -v ./must-gather

##@ Build

IMAGE := $(LVMS_CACHE)/image/lvms-operator.tar

.PHONY: build
build: $(BIN)/lvms ## Build the operator's program.

# Debian's package lists are read once and kept with the packages, so that a second build has the same packages and needs
# no network. true reads them again: a release wants today's.
DEBIAN_UPDATE ?= false
# The commit goes into the provenance, where nothing is changed on top of it.
REVISION ?= $(shell [ -n "$$(git status --porcelain 2>&1)" ] || git rev-parse HEAD)

# $(call rootfs,ARCH): the files of the image's first layer, from Debian's packages for that architecture.
rootfs = $(BIN)/rootfs -arch $(1) -update=$(DEBIAN_UPDATE) -cache $(LVMS_CACHE)/debian -out $(LVMS_CACHE)/rootfs-$(1)
# $(call write-image,ARCH,PROGRAM,ARCHIVE): and the archive, with its list of components and its provenance beside it.
write-image = $(BIN)/image -arch $(1) -rootfs $(LVMS_CACHE)/rootfs-$(1) -packages $(LVMS_CACHE)/rootfs-$(1).packages.json \
	-binary $(2) -version $(VERSION) -revision "$(REVISION)" -out $(3)
# $(call with-console,PROGRAM): with the server of the console plugin, and what of npm is in that.
with-console = -console $(1) -parts $(CONSOLE_PARTS)

.PHONY: image
image: $(BIN)/lvms $(BIN)/console-plugin $(BIN)/rootfs $(BIN)/image ## Write the operator's image as an OCI archive, without a container engine. Wants Node.js 20.
	@mkdir -p $(dir $(IMAGE)) && $(call rootfs,amd64)
	@$(call write-image,amd64,$(BIN)/lvms,$(IMAGE)) $(call with-console,$(BIN)/console-plugin)

ARCHES := amd64 arm64 ppc64le s390x
IMAGES := $(ARCHES:%=$(LVMS_CACHE)/image/lvms-operator-%.tar)

.PHONY: images
images: $(IMAGES) ## The same for amd64, arm64, ppc64le and s390x, and one archive with all of them.
	@$(BIN)/image -index -out $(LVMS_CACHE)/image/lvms-operator-index.tar $(IMAGES)

.PHONY: $(IMAGES) $(ARCHES:%=$(BIN)/lvms-%) $(ARCHES:%=$(BIN)/console-plugin-%)
$(IMAGES): $(LVMS_CACHE)/image/lvms-operator-%.tar: $(BIN)/lvms-% $(BIN)/console-plugin-% $(BIN)/rootfs $(BIN)/image
	@mkdir -p $(dir $@) && $(call rootfs,$*)
	@$(call write-image,$*,$<,$@) $(call with-console,$(BIN)/console-plugin-$*)
$(ARCHES:%=$(BIN)/lvms-%): $(BIN)/lvms-%:
	@GOARCH=$* hack/step "build lvms for $*" go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/lvms
$(ARCHES:%=$(BIN)/console-plugin-%): $(BIN)/console-plugin-%: console-files
	@GOARCH=$* hack/step "build console-plugin for $*" go build -ldflags "-s -w" -o $@ ./console-plugin

GATHER_IMAGE := $(LVMS_CACHE)/image/lvms-must-gather.tar
GATHER_IMAGES := $(ARCHES:%=$(LVMS_CACHE)/image/lvms-must-gather-%.tar)
gather-rootfs = $(BIN)/rootfs -image must-gather -arch $(1) -update=$(DEBIAN_UPDATE) -cache $(LVMS_CACHE)/debian -out $(LVMS_CACHE)/rootfs-must-gather-$(1)
write-gather-image = $(BIN)/image -image must-gather -arch $(1) -rootfs $(LVMS_CACHE)/rootfs-must-gather-$(1) -packages $(LVMS_CACHE)/rootfs-must-gather-$(1).packages.json \
	-binary $(2) -version $(VERSION) -revision "$(REVISION)" -out $(3)

.PHONY: must-gather-image
must-gather-image: $(BIN)/gather $(BIN)/rootfs $(BIN)/image ## Write the image of must-gather as an OCI archive.
	@mkdir -p $(dir $(GATHER_IMAGE)) && $(call gather-rootfs,amd64)
	@$(call write-gather-image,amd64,$(BIN)/gather,$(GATHER_IMAGE))

.PHONY: must-gather-images
must-gather-images: $(GATHER_IMAGES) ## The same for amd64, arm64, ppc64le and s390x, and one archive with all of them.
	@$(BIN)/image -index -out $(LVMS_CACHE)/image/lvms-must-gather-index.tar $(GATHER_IMAGES)

.PHONY: $(GATHER_IMAGES) $(ARCHES:%=$(BIN)/gather-%)
$(GATHER_IMAGES): $(LVMS_CACHE)/image/lvms-must-gather-%.tar: $(BIN)/gather-% $(BIN)/rootfs $(BIN)/image
	@mkdir -p $(dir $@) && $(call gather-rootfs,$*)
	@$(call write-gather-image,$*,$<,$@)
$(ARCHES:%=$(BIN)/gather-%): $(BIN)/gather-%:
	@GOARCH=$* hack/step "build gather for $*" go build -ldflags "$(LDFLAGS)" -o $@ ./must-gather

.PHONY: console-host
console-host:
	@hack/console packages
	@hack/console host

.PHONY: console-browser
console-browser:
	@[ -x "$${CHROMIUM:-/usr/bin/chromium}" ] || { echo "Chromium is not there: make packages-tests installs it" >&2; exit 1; }
	@command -v promtool >/dev/null && command -v prometheus >/dev/null || { echo "promtool or prometheus is not there: make packages installs Debian's package prometheus, which the console's tests start" >&2; exit 1; }

# The list of the npm packages in the plugin, and their licences.
CONSOLE_PARTS := $(LVMS_CACHE)/console

.PHONY: console-build console-files
console-build: $(BIN)/console-plugin ## Build the console plugin, and the server that has it: bin/console-plugin. Wants Node.js 20 and npm's registry.
console-files:
	@hack/console build $(CONSOLE_PARTS)
$(BIN)/console-plugin: console-files
	@hack/step "build console-plugin" go build -ldflags "-s -w" -o $@ ./console-plugin

# A stand-in for upstream's node agent, for the story of taking a cluster over.
UPSTREAM_IMAGE := $(LVMS_CACHE)/image/upstream.tar

.PHONY: upstream-image
upstream-image: image
	@go build -o $(BIN)/upstream ./test/upstream/agent
	@$(call write-image,amd64,$(BIN)/upstream,$(UPSTREAM_IMAGE)) -title upstream

# The commit of the version before this one, 0.1.0, which the long lane upgrades from. Set it with VERSION.
PREVIOUS_COMMIT := 60d094bf615766907a5ea7cf66b73fffdfd7a928
PREVIOUS := $(LVMS_CACHE)/previous/$(PREVIOUS_COMMIT)

.PHONY: previous
previous: ## Build the image of the version before this one, from the repository's history. Wants Node.js 20.
	@[ -d $(PREVIOUS) ] || hack/step "build the previous version" hack/previous $(PREVIOUS_COMMIT) $(PREVIOUS)

# The release that is to follow this one, for the story of an upgrade: the same program with another number. test/e2e/catalog names
# both versions.
NEXT_VERSION := 0.3.0
NEXT_IMAGE := $(LVMS_CACHE)/image/next.tar

.PHONY: next-image
next-image: image
	@go build -ldflags "$(LDFLAGS:%$(VERSION)=%$(NEXT_VERSION))" -o $(BIN)/lvms-next ./cmd/lvms
	@$(call write-image,amd64,$(BIN)/lvms-next,$(NEXT_IMAGE)) $(call with-console,$(BIN)/console-plugin) -version $(NEXT_VERSION)

# Go decides what is stale.
.PHONY: $(BIN)/lvms $(BIN)/gather $(BIN)/image $(BIN)/rootfs $(LAB) $(BIN)/controller-gen $(BIN)/golangci-lint $(BIN)/vale $(BIN)/hugo $(BIN)/bundle $(BIN)/catalog $(BIN)/bridge $(BIN)/console-plugin
$(BIN)/lvms:
	@hack/step "build lvms" go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/lvms
$(BIN)/gather:
	@hack/step "build gather" go build -ldflags "$(LDFLAGS)" -o $@ ./must-gather
$(BIN)/image:
	@go build -o $@ ./hack/image
$(BIN)/rootfs:
	@go build -o $@ ./hack/rootfs
$(LAB):
	@hack/step "build lab" go build -o $@ ./test/lab/cmd/lab
$(BIN)/bridge: $(LAB)
	@hack/step "build bridge" go build -o $@ ./console-plugin/bridge
$(BIN)/controller-gen:
	@cd hack/tools && go build -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen
$(BIN)/bundle:
	@cd hack/bundle && go build -o $@ .
$(BIN)/catalog:
	@cd hack/bundle && go build -o $@ ./catalog
$(BIN)/golangci-lint:
	@cd hack/tools/golangci-lint && ../../step "build golangci-lint" go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/vale: # It is partly in C.
	@cd hack/tools/vale && ../../step "build vale" env CGO_ENABLED=1 CGO_CFLAGS=-w go build -o $@ github.com/vale-cli/vale/v3/cmd/vale
$(BIN)/hugo:
	@cd hack/tools/hugo && ../../step "build hugo" go build -o $@ github.com/gohugoio/hugo

.PHONY: generate
generate: $(BIN)/controller-gen ## Generate deep copies, CRDs, RBAC, webhook configuration and rules; from them the bundle, the catalog and console-types.
	@hack/generate $(BIN)/controller-gen
	@$(MAKE) bundle catalog console-types

# test-console fails if they are stale.
.PHONY: console-types
console-types: ## Generate the TypeScript types and limits of the console plugin from the CRDs. Needs Node.js 20.
	@hack/console packages
	@$(NPM) run --silent types

.PHONY: monitoring
monitoring: ## Write the PrometheusRule and the dashboards again, from monitoring/.
	@go run ./monitoring

# Each page has a test that fails if it is stale.
.PHONY: references
references: ## Write the pages of docs/reference that come from the code: API, conditions, events, flags, metrics, alerts.
	@go test ./internal/reference ./cmd/lvms ./monitoring -run TestReference -count 1 -update

SITE := $(LVMS_CACHE)/site

# Not part of a lane: Hugo takes minutes to build.
.PHONY: docs
docs: $(BIN)/hugo ## Write the documentation as a static site to .cache/site, and check its links. Its first run builds Hugo.
	@hack/step "site" sh -c '"$$0" "$$@" >/dev/null' $(BIN)/hugo --source hack/site --destination $(SITE) --cleanDestinationDir --noBuildLock --panicOnWarning
	@hack/step "links of the site" go run ./hack/site $(SITE)

.PHONY: docs-serve
docs-serve: $(BIN)/hugo ## Serve the documentation, and follow changes of its pages: make docs-serve PORT=1313.
	@$(BIN)/hugo server --source hack/site --noBuildLock --panicOnWarning --renderToMemory --port $(or $(PORT),1313)

# A release names its images by digest.
BUNDLE_IMAGE ?= quay.io/lvm-storage/lvms-operator:v$(VERSION)
MUST_GATHER_IMAGE ?= quay.io/lvm-storage/lvms-must-gather:v$(VERSION)
BUNDLE_IMAGES = -image $(BUNDLE_IMAGE) -must-gather-image $(MUST_GATHER_IMAGE)

.PHONY: bundle
bundle: $(BIN)/bundle ## Write the OLM bundle from config/: make bundle VERSION=X.Y.Z BUNDLE_IMAGE=NAME@sha256:... MUST_GATHER_IMAGE=NAME@sha256:...
	@$(BIN)/bundle -version $(VERSION) $(BUNDLE_IMAGES) -out bundle

# A release names the image of its bundle by digest.
CATALOG_BUNDLE_IMAGE ?= quay.io/lvm-storage/lvms-operator-bundle:v$(VERSION)
OPM = $$($(LAB) programs olm)/opm

.PHONY: catalog
catalog: $(BIN)/catalog $(LAB) ## Add the bundle to the file-based catalog: make catalog VERSION=X.Y.Z CATALOG_BUNDLE_IMAGE=NAME@sha256:...
	@$(BIN)/catalog -opm $(OPM) -bundle bundle -image $(CATALOG_BUNDLE_IMAGE) -out catalog

##@ Checks

export GOLANGCI_LINT_CACHE := $(LVMS_CACHE)/golangci-lint

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/vale ## golangci-lint (.golangci.yml); vale over documents, comments and messages (.vale.ini); commit subjects.
	@hack/step "commit subjects" hack/lint-commits
	@hack/step "prose" hack/lint-prose $(BIN)/vale
	@hack/step "golangci-lint" $(BIN)/golangci-lint run ./...

.PHONY: prose
prose: $(BIN)/vale ## What vale says of documents, comments and messages, with warnings and suggestions, which `make lint` leaves out.
	@hack/lint-prose $(BIN)/vale --minAlertLevel=suggestion

.PHONY: format
format: $(BIN)/golangci-lint ## Format the Go files.
	@$(BIN)/golangci-lint fmt ./...

.PHONY: verify
verify: $(BIN)/controller-gen $(BIN)/bundle $(BIN)/catalog $(LAB) ## Fail if a generated file is stale, a link between documents is broken, or OLM's validators refuse bundle or catalog.
	@hack/step "verify generated files" hack/verify $(BIN)/controller-gen $(BIN)/bundle -version $(VERSION) $(BUNDLE_IMAGES)
	@opm=$(OPM) && hack/step "verify catalog" hack/verify-catalog $(BIN)/catalog -opm "$$opm" -bundle bundle -image $(CATALOG_BUNDLE_IMAGE)
	@cd hack/bundle && ../step "bundle tests" go test ./...
	@hack/step "links of the documents" go test ./docs

##@ Install without OLM

# config/openshift on OpenShift.
CONFIG ?= config/default

.PHONY: deploy
deploy: ## Install on the cluster that kubectl talks to: make deploy IMG=registry.example.com/lvms-operator@sha256:...
	@hack/deploy $(CONFIG) "$(IMG)"

##@ Look around

.PHONY: preflight
preflight: ## Say what this machine lacks to run the lab, before anything is started.
	@hack/preflight

.PHONY: preflight-image
preflight-image:
	@hack/preflight image

.PHONY: packages packages-tests
packages: $(LAB) ## Install the Debian packages that are missing.
	@$(LAB) packages
packages-tests: $(LAB)
	@$(LAB) packages --tests

.PHONY: boot
boot: $(LAB) ## Boot a node, to see whether the lab runs on this machine. Wants the packages.
	@hack/step "boot a node" $(LAB) doctor --boot

.PHONY: lab-up
lab-up: preflight packages ## Start a cluster of two nodes with blank disks, without the operator.
	@$(LAB) up --name $(LAB_NAME) --nodes 2 --disks 8G,8G --snapshots

.PHONY: lab-shell
lab-shell: $(LAB) ## A shell with kubectl set up for the running cluster.
	@$(LAB) shell --name $(LAB_NAME) $(NODE)

.PHONY: lab-kubectl
lab-kubectl: $(LAB) ## kubectl on the running cluster: make lab-kubectl ARGS="get pods -A".
	@$(LAB) kubectl --name $(LAB_NAME) -- $(ARGS)

.PHONY: console
console: console-build $(BIN)/bridge ## The console plugin over the running cluster, for a browser on this machine: make console LISTEN=127.0.0.1:9000.
	@hack/console host
	@$(BIN)/bridge --lab $(LVMS_CACHE)/labs/$(LAB_NAME) --plugin $(BIN)/console-plugin --host $(CONSOLE)/host/dist --prometheus http://127.0.0.1:9090 --listen $(or $(LISTEN),127.0.0.1:9000)

.PHONY: lab-down
lab-down: $(LAB) ## Stop the cluster and remove all it left.
	@$(LAB) down --name $(LAB_NAME)

.PHONY: clean
clean: ## Remove the folder of built programs.
	@rm -rf $(LVMS_CACHE)
