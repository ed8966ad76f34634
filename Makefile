# Targets for developers. Run `make` without a target for the list.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VERSION ?= 0.2.0
# Programs are built once and kept in this folder, which git ignores.
export LVMS_CACHE ?= $(CURDIR)/.cache
BIN := $(LVMS_CACHE)/bin
LDFLAGS := -s -w -X github.com/lvm-storage/lvm-operator/internal/version.Version=$(VERSION)
LAB := $(BIN)/lab
LAB_NAME ?= demo
ARGS ?=

# All builds use the same flags, so that no package is compiled twice. -trimpath keeps paths of this machine out of the
# programs.
export GOFLAGS ?= -buildvcs=false -trimpath
export CGO_ENABLED := 0

# Tests run with the race detector, which requires C. Programs in a lab node run without it, because User Mode Linux
# does not have enough address space; unit tests run the same code on fakes. `make lint` runs vet.
RACE := CGO_ENABLED=1 go test -race -vet=off

# The short lane is the default. hack/lane sets LVMS_LANE.
LONG := $(filter test-long,$(LVMS_LANE))
SHORT := $(if $(LONG),,-short)
E2E_FLAGS := -ginkgo.v $(if $(LONG),,-ginkgo.label-filter='!long')

##@ Start here

.PHONY: help
help: ## Print this help.
	@awk 'BEGIN {FS = ":.*## "; print "make TARGET [VARIABLE=value]"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ready image $(BIN)/bundle $(BIN)/catalog $(BIN)/bridge ## Run a demo on a real cluster: blank disks, a mounted volume, a restored snapshot.
	@hack/step "build demo" go build -o $(BIN)/demo ./test/demo
	@hack/console host
	@$(BIN)/demo --name $(LAB_NAME) --image $(IMAGE) --version $(VERSION) --bridge $(BIN)/bridge --plugin $(BIN)/console-plugin --host $(CONSOLE)/host/dist

.PHONY: test
test: ready-tests ## Install the required packages and run every kind of check once. Print the time of each step.
	@hack/lane test artifacts lint verify test-unit test-fips test-fuzz -- test-env test-lab -- test-e2e test-console

.PHONY: test-long
test-long: ready-tests ## Run every check, with all crash points, host flavors and RAID levels, power cuts and soak. Run it before a release.
	@hack/lane test-long artifacts lint verify test-unit test-fips test-arches test-fuzz -- test-env test-env-oldest test-console test-lab -- test-e2e test-e2e-flavors soak

# Find out early whether the machine can run the lab: check its hardware and network, install packages, boot a node.
# This takes seconds once the packages are installed.
.PHONY: ready ready-tests
ready: preflight-image packages boot
ready-tests: preflight-image packages-tests boot

# A lane builds the artifacts once, before it runs targets in parallel: these would otherwise write the same files.
PROGRAM_SETS := kubernetes containerd container snapshot-controller olm $(if $(LONG),service-ca prometheus-operator network-policies olm-v1 kubernetes-oldest)

.PHONY: artifacts
artifacts: image must-gather-image upstream-image next-image $(BIN)/kubectl-lvms $(if $(LONG),previous topolvm-image) $(BIN)/bundle $(BIN)/catalog $(BIN)/helm $(BIN)/bridge console-host
	@hack/step "programs of the lab" sh -c '"$$0" programs "$$@" >/dev/null' $(LAB) $(PROGRAM_SETS)

# $(call wants,TARGETS): the prerequisites of a test, or nothing if the lane has built them.
wants = $(if $(LVMS_LANE_BUILT),,$(1))

##@ Tests, one by one

.PHONY: test-unit
test-unit: ## Run the unit tests. They need neither root nor a lab.
	@hack/step "unit tests" env $(RACE) ./...

# The programs compile for each architecture. The packages that read data of the kernel, or of disks, are tested on those
# for which QEMU's user emulation is installed (Debian's package qemu-user-static): s390x is big-endian.
QEMU = $(or $(shell command -v qemu-$(subst arm64,aarch64,$(1))-static),)
BINARY_PACKAGES := ./vgmanager/devicemapper ./vgmanager/rescue/files ./vgmanager/thinmeta ./vgmanager/uevent

.PHONY: test-arches
test-arches: $(call wants,console-files) ## Compile the programs for all architectures. Run tests of binary formats in QEMU, if it is installed.
	@export GOFIPS140=certified; $(foreach arch,$(ARCHES),GOARCH=$(arch) hack/step "compile for $(arch)" go build -o /dev/null ./cmd/lvms && \
		GOARCH=$(arch) go build -o /dev/null ./must-gather && GOARCH=$(arch) go build -o /dev/null ./console-plugin && ) true
	@$(foreach arch,$(filter-out amd64,$(ARCHES)),$(if $(call QEMU,$(arch)),GOARCH=$(arch) hack/step "tests on $(arch)" \
		go test -vet=off -exec $(call QEMU,$(arch)) $(BINARY_PACKAGES) && )) true

# In the mode `only`, Go refuses cryptography that FIPS 140-3 does not allow. Programs with the certified module run in the
# mode `on`, which also allows SHA-1 in the handshake of WebSockets (RFC 6455).
CRYPTO_PACKAGES := ./internal/agentca/... ./internal/mutualtls/... ./internal/pki/... ./internal/servingcert/... ./internal/tlsprofile/... ./internal/scrape/... ./console-plugin/server/...

.PHONY: test-fips
test-fips: $(call wants,console-files) ## Run the tests of TLS and certificates with only the cryptography of FIPS 140-3.
	@GODEBUG=fips140=only hack/step "FIPS tests" env $(RACE) $(CRYPTO_PACKAGES)

.PHONY: test-fuzz
test-fuzz: ## Run the fuzz tests of all decoders. Set FUZZTIME to a time (1m) or a number of inputs (30000x).
	@FUZZTIME=$(or $(FUZZTIME),$(if $(LONG),200000x,5000x)) hack/test-fuzz

.PHONY: test-env
test-env: $(call wants,$(LAB) $(BIN)/helm) ## Test controllers, webhooks and CRDs with a real kube-apiserver and etcd.
	@$(call test-api,kubernetes,API server tests)

.PHONY: test-env-oldest
test-env-oldest: $(call wants,$(LAB) $(BIN)/helm) ## Run test-env with the oldest Kubernetes that the bundle supports.
	@$(call test-api,kubernetes-oldest,API server tests on the oldest Kubernetes)

# $(call test-api,PROGRAMS,STEP): run the tests with the build tag env. PROGRAMS is the set of lab programs with the API server.
# Parallel tests mostly wait for the API server, so more of them run than there are processors.
test-api = assets=$$($(LAB) programs $(1)) && KUBEBUILDER_ASSETS=$$assets KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=5m KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=5m LVMS_HELM=$(BIN)/helm hack/step "$(2)" \
	env $(RACE) -tags env -p 1 -parallel 8 -count 1 ./test/env/... ./cli/... ./controllers/... ./internal/... ./must-gather/...

.PHONY: test-lab
test-lab: $(call wants,packages image) ## Test the lab, and the agent with real LVM on a bare lab node.
	@hack/step "lab tests" env $(RACE) $(SHORT) -tags lab -p 1 -count 1 -timeout 20m ./test/lab/...
	@hack/test-bare

# A cluster in the lab keeps a processor busy. With more clusters than the machine can run, nodes do not answer for
# minutes. In a lane, other tests run beside it.
CLUSTERS := $(shell echo $$(( $$(nproc) < 4 ? 1 : $$(nproc) / 2 )))

# The requests of the product to the API servers of the end-to-end tests.
RIGHTS := $(LVMS_CACHE)/rights

.PHONY: test-e2e
test-e2e: $(call wants,packages artifacts) ## Run the end-to-end tests on lab clusters with real LVM.
	@rm -rf $(RIGHTS) && mkdir -p $(RIGHTS)
	@LVMS_RIGHTS=$(RIGHTS) LVMS_IMAGE=$(IMAGE) LVMS_GATHER_IMAGE=$(GATHER_IMAGE) LVMS_GATHER=$(BIN)/gather LVMS_UPSTREAM_IMAGE=$(UPSTREAM_IMAGE) LVMS_NEXT_IMAGE=$(NEXT_IMAGE) LVMS_PREVIOUS=$(PREVIOUS) LVMS_HELM=$(BIN)/helm LVMS_PLUGIN=$(BIN)/kubectl-lvms $(if $(LONG),LVMS_TOPOLVM_IMAGE=$(TOPOLVM_IMAGE)) hack/step "end-to-end tests" go test $(SHORT) -tags e2e -count 1 -p $(CLUSTERS) -timeout $(if $(LONG),120m,50m) ./test/e2e/... $(E2E_FLAGS)
	@LVMS_RIGHTS=$(RIGHTS) hack/step "rights" go test -tags e2e -count 1 ./test/rights

.PHONY: test-previous
test-previous: packages image previous $(BIN)/bundle $(BIN)/catalog ## Test the upgrade from the previous version while Pods write. In the long lane, test-e2e includes it.
	@LVMS_IMAGE=$(IMAGE) LVMS_PREVIOUS=$(PREVIOUS) hack/step "upgrade tests" go test -tags e2e -count 1 -timeout 60m ./test/e2e/previous -ginkgo.v

# Only the console plugin needs Node.js, and everything that contains it: its server and the operator's image.
CONSOLE := $(CURDIR)/console-plugin/web
NPM := npm --prefix $(CONSOLE)

# The namespace of the operator in the browser tests: OpenShift's own, or that of upstream before 4.20, with each second commit.
CONSOLE_NAMESPACE := $(if $(filter %1 %3 %5 %7 %9,$(LVMS_ROTATION)),openshift-storage,openshift-lvm-storage)

.PHONY: test-console
test-console: console-browser $(call wants,console-build $(BIN)/bridge console-host) ## Test the console plugin: types, units, bundle, licenses, and the pages in Chromium with a real API server. Needs Node.js 20.
	@cd $(CONSOLE) && ../../hack/step "console types" $(NPM) run --silent check
	@cd $(CONSOLE) && ../../hack/step "console unit tests" $(NPM) run --silent test
	@cd $(CONSOLE) && ../../hack/step "console bundle" $(NPM) run --silent budget && $(NPM) run --silent licences
	@assets=$$($(LAB) programs kubernetes) && cd $(CONSOLE) && KUBEBUILDER_ASSETS=$$assets KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=5m KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=5m \
		../../hack/step "console browser tests" $(BIN)/bridge --plugin $(BIN)/console-plugin --host host/dist --namespace $(CONSOLE_NAMESPACE) --rules $(CURDIR)/monitoring/tests/rules.yaml $(NPM) run --silent browser

.PHONY: docs-images
docs-images: console-browser $(call wants,console-build $(BIN)/bridge console-host) ## Update the screenshots of the console in docs/images.
	@assets=$$($(LAB) programs kubernetes) && cd $(CONSOLE) && KUBEBUILDER_ASSETS=$$assets KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=5m KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=5m \
		../../hack/step "pictures" $(BIN)/bridge --plugin $(BIN)/console-plugin --host host/dist --rules $(CURDIR)/monitoring/tests/rules.yaml \
		node --import tsx browser/pictures.ts $(CURDIR)/docs/images

# SEED determines the random steps; the test prints the seed that it uses. FOR is the duration. STEPS is a file with the
# steps to run instead: a failed test prints them.
FOR ?= 10m

.PHONY: soak
soak: $(call wants,packages image) ## Run random actions of users and administrators, and faults, on a lab cluster: make soak SEED=1 FOR=2h, or STEPS=FILE.
	@go build -o $(BIN)/soak ./test/soak
	@hack/step "soak $(FOR)" $(BIN)/soak --image $(IMAGE) --for $(FOR) $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--replay $(STEPS)) --logs $(LVMS_CACHE)/soak-logs

.PHONY: test-e2e-flavors
test-e2e-flavors: $(call wants,packages image) ## Run the main end-to-end test on every other flavor of host. For some flavors: hack/test-e2e-flavors FLAVOR...
	@LVMS_IMAGE=$(IMAGE) hack/test-e2e-flavors

.PHONY: bench-node
bench-node: packages ## Measure the node agent on a lab node: idle processes and API writes, time to detect a disk, time to create a volume group.
	@hack/bench-node

.PHONY: bench-volumes
bench-volumes: packages ## Compare volume operations with bare LVM and with TopoLVM's lvmd, on a lab node.
	@hack/bench-volumes

.PHONY: bench-copies
bench-copies: packages ## Compare the restore of a snapshot on another node with dd over TCP, between two lab nodes, and measure the memory of the agents.
	@hack/bench-copies

.PHONY: bench-moves
bench-moves: packages ## Measure how long a workload waits while its volume is moved to another lab node, for volumes of different sizes.
	@hack/bench-moves

.PHONY: bench-io
bench-io: packages ## Compare I/O to volumes with the raw devices, with fio, on a lab node.
	@hack/bench-io

.PHONY: bench-scale
bench-scale: packages $(BIN)/lvms $(LAB) ## Measure the operator with 1,000 simulated nodes and 20,000 volumes: memory, requests, times.
	@hack/bench-scale

.PHONY: bench-scrape
bench-scrape: ## Measure the time and size of a scrape of the node agent, compared with the metrics that every Go program has.
	@hack/step "bench-scrape" go test ./cmd/lvms -run XXX -bench Scrape -benchtime 1000x

.PHONY: bench-gather
bench-gather: $(LAB) ## Measure must-gather with 200 simulated nodes and 4,000 volumes: time and size of each part.
	@assets=$$($(LAB) programs kubernetes) && KUBEBUILDER_ASSETS=$$assets KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=5m KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=5m hack/step "bench-gather" go test -tags env -run XXX -bench Gather -benchtime 1x -v ./must-gather

##@ Build

IMAGE := $(LVMS_CACHE)/image/lvms-operator.tar

.PHONY: build
build: $(BIN)/lvms ## Build the operator.

# Debian's package lists and packages are kept, so that a second build has the same packages and needs no network. true
# downloads the lists again, as a release should.
DEBIAN_UPDATE ?= false
# The commit in the provenance. Empty if the working tree has changes.
REVISION ?= $(shell [ -n "$$(git status --porcelain 2>&1)" ] || git rev-parse HEAD)

# $(call rootfs,ARCH): unpack Debian's packages for an architecture, as the first layer of the image.
rootfs = $(BIN)/rootfs -arch $(1) -update=$(DEBIAN_UPDATE) -cache $(LVMS_CACHE)/debian -out $(LVMS_CACHE)/rootfs-$(1)
# $(call write-image,ARCH,PROGRAM,ARCHIVE): write the archive of the image, with its list of components and its provenance next to it.
write-image = $(BIN)/image -arch $(1) -rootfs $(LVMS_CACHE)/rootfs-$(1) -packages $(LVMS_CACHE)/rootfs-$(1).packages.json \
	-binary $(2) -version $(VERSION) -revision "$(REVISION)" -out $(3)
# The version of Go's FIPS 140-3 module in the programs of the images: the certified one in images for all architectures,
# which releases have, and in the long lane. A program with it runs in FIPS mode. Without it, FIPS mode is off: this needs
# no second compilation of all packages, and the module of Go 1.26 uses 32 MiB for its entropy source in FIPS mode.
FIPS_MODULE ?= $(if $(LONG),certified,off)
# $(call with-console,PROGRAM): the flags that add the server of the console plugin, and the list of npm packages in it.
with-console = -console $(1) -parts $(CONSOLE_PARTS)

.PHONY: image
image: $(BIN)/lvms $(BIN)/console-plugin $(BIN)/rootfs $(BIN)/image ## Build the operator's image as an OCI archive, without a container engine. Needs Node.js 20.
	@mkdir -p $(dir $(IMAGE)) && $(call rootfs,amd64)
	@$(call write-image,amd64,$(BIN)/lvms,$(IMAGE)) $(call with-console,$(BIN)/console-plugin)

ARCHES := amd64 arm64 ppc64le s390x
IMAGES := $(ARCHES:%=$(LVMS_CACHE)/image/lvms-operator-%.tar)

.PHONY: images
images: $(IMAGES) ## Build the operator's image for amd64, arm64, ppc64le and s390x, and an archive with all four.
	@$(BIN)/image -index -out $(LVMS_CACHE)/image/lvms-operator-index.tar $(IMAGES)

.PHONY: $(IMAGES) $(ARCHES:%=$(BIN)/lvms-%) $(ARCHES:%=$(BIN)/console-plugin-%)
$(IMAGES): $(LVMS_CACHE)/image/lvms-operator-%.tar: $(BIN)/lvms-% $(BIN)/console-plugin-% $(BIN)/rootfs $(BIN)/image
	@mkdir -p $(dir $@) && $(call rootfs,$*)
	@$(call write-image,$*,$<,$@) $(call with-console,$(BIN)/console-plugin-$*)
$(ARCHES:%=$(BIN)/lvms-%): $(BIN)/lvms-%:
	@GOFIPS140=certified GOARCH=$* hack/step "build lvms for $*" go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/lvms
$(ARCHES:%=$(BIN)/console-plugin-%): $(BIN)/console-plugin-%: console-files
	@GOFIPS140=certified GOARCH=$* hack/step "build console-plugin for $*" go build -ldflags "-s -w" -o $@ ./console-plugin

GATHER_IMAGE := $(LVMS_CACHE)/image/lvms-must-gather.tar
GATHER_IMAGES := $(ARCHES:%=$(LVMS_CACHE)/image/lvms-must-gather-%.tar)
gather-rootfs = $(BIN)/rootfs -image must-gather -arch $(1) -update=$(DEBIAN_UPDATE) -cache $(LVMS_CACHE)/debian -out $(LVMS_CACHE)/rootfs-must-gather-$(1)
write-gather-image = $(BIN)/image -image must-gather -arch $(1) -rootfs $(LVMS_CACHE)/rootfs-must-gather-$(1) -packages $(LVMS_CACHE)/rootfs-must-gather-$(1).packages.json \
	-binary $(2) -version $(VERSION) -revision "$(REVISION)" -out $(3)

.PHONY: must-gather-image
must-gather-image: $(BIN)/gather $(BIN)/rootfs $(BIN)/image ## Build the must-gather image as an OCI archive.
	@mkdir -p $(dir $(GATHER_IMAGE)) && $(call gather-rootfs,amd64)
	@$(call write-gather-image,amd64,$(BIN)/gather,$(GATHER_IMAGE))

.PHONY: must-gather-images
must-gather-images: $(GATHER_IMAGES) ## Build the must-gather image for amd64, arm64, ppc64le and s390x, and an archive with all four.
	@$(BIN)/image -index -out $(LVMS_CACHE)/image/lvms-must-gather-index.tar $(GATHER_IMAGES)

.PHONY: $(GATHER_IMAGES) $(ARCHES:%=$(BIN)/gather-%)
$(GATHER_IMAGES): $(LVMS_CACHE)/image/lvms-must-gather-%.tar: $(BIN)/gather-% $(BIN)/rootfs $(BIN)/image
	@mkdir -p $(dir $@) && $(call gather-rootfs,$*)
	@$(call write-gather-image,$*,$<,$@)
$(ARCHES:%=$(BIN)/gather-%): $(BIN)/gather-%:
	@GOFIPS140=certified GOARCH=$* hack/step "build gather for $*" go build -ldflags "$(LDFLAGS)" -o $@ ./must-gather

# An administrator's machine runs the plugin, so it is not in an image. The Krew manifest is not committed: its checksums
# are those of the archives of a release.
.PHONY: cli
cli: ## Build the kubectl plugin for Linux, macOS and Windows, and its Krew manifest, into .cache/cli.
	@VERSION=$(VERSION) LDFLAGS="$(LDFLAGS)" hack/step "build kubectl-lvms for all platforms" hack/cli $(LVMS_CACHE)/cli

.PHONY: console-host
console-host:
	@hack/console packages
	@hack/console host

.PHONY: console-browser
console-browser:
	@[ -x "$${CHROMIUM:-/usr/bin/chromium}" ] || { echo "Chromium is not installed: run make packages-tests" >&2; exit 1; }
	@command -v promtool >/dev/null && command -v prometheus >/dev/null || { echo "promtool or prometheus is not installed: run make packages, which installs Debian's package prometheus" >&2; exit 1; }

# The list of the npm packages in the plugin, and their licenses.
CONSOLE_PARTS := $(LVMS_CACHE)/console

.PHONY: console-build console-files
console-build: $(BIN)/console-plugin ## Build the console plugin and its server, .cache/bin/console-plugin. Needs Node.js 20 and access to npm's registry.
console-files:
	@hack/console build $(CONSOLE_PARTS)
$(BIN)/console-plugin: console-files
	@GOFIPS140=$(FIPS_MODULE) hack/step "build console-plugin" go build -ldflags "-s -w" -o $@ ./console-plugin

# A fake of upstream's node agent, for the end-to-end test that takes over a cluster from upstream.
UPSTREAM_IMAGE := $(LVMS_CACHE)/image/upstream.tar

.PHONY: upstream-image
upstream-image: image
	@go build -o $(BIN)/upstream ./test/upstream/agent
	@$(call write-image,amd64,$(BIN)/upstream,$(UPSTREAM_IMAGE)) -title upstream

# TopoLVM and its sidecars at the paths of TopoLVM's own image, for the end-to-end test that switches from its chart. A
# preStop hook of the chart needs a shell.
TOPOLVM_IMAGE := $(LVMS_CACHE)/image/topolvm.tar
TOPOLVM_FILES := $(LVMS_CACHE)/topolvm

.PHONY: topolvm-image
topolvm-image: $(BIN)/rootfs $(BIN)/image
	@mkdir -p $(dir $(TOPOLVM_IMAGE)) $(TOPOLVM_FILES)/usr/bin && $(call rootfs,amd64)
	@cd hack/topolvm && ../step "build TopoLVM" go build -ldflags "-s -w" -o $(TOPOLVM_FILES)/ tool
	@for name in lvmd topolvm-controller topolvm-node; do ln -sfn hypertopolvm $(TOPOLVM_FILES)/$$name; done
	@for name in csi-node-driver-registrar livenessprobe; do ln -sfn lvms $(TOPOLVM_FILES)/$$name; done
	@cp /usr/bin/busybox $(TOPOLVM_FILES)/usr/bin/busybox && for name in sh rm; do ln -sfn busybox $(TOPOLVM_FILES)/usr/bin/$$name; done
	@go build -ldflags "-s -w" -o $(BIN)/topolvm-sidecars ./test/topolvm/sidecars
	@$(call write-image,amd64,$(BIN)/topolvm-sidecars,$(TOPOLVM_IMAGE)) -title topolvm -files $(TOPOLVM_FILES) -user 0:0

# The manifests of TopoLVM's chart for this test, under its name and under the earlier one (useLegacy). The chart is that
# of the module. Its dependency, which is disabled, is left out, because helm would look for it.
TOPOLVM_TEST := test/e2e/topolvm

.PHONY: topolvm-manifests
topolvm-manifests: $(BIN)/helm
	@chart=$$(mktemp -d) && trap 'rm -r "$$chart"' EXIT && \
		cp -r --no-preserve=mode "$$(go list -m -f '{{.Dir}}' github.com/topolvm/topolvm)/charts/topolvm/." "$$chart" && \
		rm "$$chart/Chart.lock" && sed -i '/^dependencies:/,/condition:/d' "$$chart/Chart.yaml" && \
		header="# TopoLVM's Helm chart $$(sed -n 's/^version: //p' "$$chart/Chart.yaml") of the module github.com/topolvm/topolvm $$(go list -m -f '{{.Version}}' github.com/topolvm/topolvm), rendered with values.yaml" && \
		template() { $(BIN)/helm template topolvm "$$chart" --namespace topolvm-system "$$@"; } && \
		{ echo "$$header by: make topolvm-manifests" && template --values $(TOPOLVM_TEST)/values.yaml; } >$(TOPOLVM_TEST)/chart.yaml && \
		{ echo "$$header, in which topolvm.io is replaced, and useLegacy by: make topolvm-manifests" && \
		sed 's/topolvm\.io/topolvm.cybozu.com/' $(TOPOLVM_TEST)/values.yaml | template --values - --set useLegacy=true; } >$(TOPOLVM_TEST)/earlier.yaml

# The commit of the previous version, 0.1.0. The long lane tests the upgrade from it. Update it together with VERSION.
PREVIOUS_COMMIT := 60d094bf615766907a5ea7cf66b73fffdfd7a928
PREVIOUS := $(LVMS_CACHE)/previous/$(PREVIOUS_COMMIT)

.PHONY: previous
previous: ## Build the image of the previous version from the repository's history. Needs Node.js 20.
	@[ -d $(PREVIOUS) ] || hack/step "build the previous version" hack/previous $(PREVIOUS_COMMIT) $(PREVIOUS)

# The next release, for the end-to-end test of an upgrade: the same program with another version. test/e2e/catalog has
# both versions.
NEXT_VERSION := 0.3.0
NEXT_IMAGE := $(LVMS_CACHE)/image/next.tar

.PHONY: next-image
next-image: image
	@GOFIPS140=$(FIPS_MODULE) go build -ldflags "$(LDFLAGS:%$(VERSION)=%$(NEXT_VERSION))" -o $(BIN)/lvms-next ./cmd/lvms
	@$(call write-image,amd64,$(BIN)/lvms-next,$(NEXT_IMAGE)) $(call with-console,$(BIN)/console-plugin) -version $(NEXT_VERSION)

# These are phony, because Go itself knows which programs are up to date.
.PHONY: $(BIN)/lvms $(BIN)/kubectl-lvms $(BIN)/gather $(BIN)/image $(BIN)/rootfs $(LAB) $(BIN)/controller-gen $(BIN)/golangci-lint $(BIN)/vale $(BIN)/hugo $(BIN)/bundle $(BIN)/catalog $(BIN)/chart $(BIN)/helm $(BIN)/bridge $(BIN)/console-plugin
$(BIN)/lvms:
	@GOFIPS140=$(FIPS_MODULE) hack/step "build lvms" go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/lvms
$(BIN)/kubectl-lvms:
	@hack/step "build kubectl-lvms" go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/kubectl-lvms
$(BIN)/gather:
	@GOFIPS140=$(FIPS_MODULE) hack/step "build gather" go build -ldflags "$(LDFLAGS)" -o $@ ./must-gather
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
$(BIN)/chart:
	@cd hack/chart && go build -o $@ .
$(BIN)/helm:
	@cd hack/chart && ../step "build helm" go build -o $@ helm.sh/helm/v3/cmd/helm
$(BIN)/golangci-lint:
	@cd hack/tools/golangci-lint && ../../step "build golangci-lint" go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/vale: # A part of it is written in C.
	@cd hack/tools/vale && ../../step "build vale" env CGO_ENABLED=1 CGO_CFLAGS=-w go build -o $@ github.com/vale-cli/vale/v3/cmd/vale
$(BIN)/hugo:
	@cd hack/tools/hugo && ../../step "build hugo" go build -o $@ github.com/gohugoio/hugo

.PHONY: generate
generate: $(BIN)/controller-gen ## Generate deep copies, CRDs, RBAC, webhook configuration and rules; from them the bundle, the catalog, the chart and console-types.
	@hack/generate $(BIN)/controller-gen
	@$(MAKE) bundle catalog chart console-types

# test-console fails if they are stale.
.PHONY: console-types
console-types: ## Generate the TypeScript types and limits of the console plugin from the CRDs. Needs Node.js 20.
	@hack/console packages
	@$(NPM) run --silent types

.PHONY: monitoring
monitoring: ## Generate the PrometheusRule and the dashboards from monitoring/.
	@go run ./monitoring

# Tests fail if a page is stale.
.PHONY: references
references: ## Generate pages of docs/reference from the code: API, conditions, events, flags, metrics, alerts, commands of the kubectl plugin.
	@go test ./internal/reference ./cli ./cmd/lvms ./monitoring -run TestReference -count 1 -update

SITE := $(LVMS_CACHE)/site

# No lane runs this target, because Hugo takes minutes to build.
.PHONY: docs
docs: $(BIN)/hugo ## Build the documentation as a static site in .cache/site, and check its links. The first run builds Hugo.
	@hack/step "site" sh -c '"$$0" "$$@" >/dev/null' $(BIN)/hugo --source hack/site --destination $(SITE) --cleanDestinationDir --noBuildLock --panicOnWarning
	@hack/step "links of the site" go run ./hack/site $(SITE)

.PHONY: docs-serve
docs-serve: $(BIN)/hugo ## Serve the documentation and reload changed pages: make docs-serve PORT=1313.
	@$(BIN)/hugo server --source hack/site --noBuildLock --panicOnWarning --renderToMemory --port $(or $(PORT),1313)

# A release sets both by digest.
BUNDLE_IMAGE ?= quay.io/lvm-storage/lvms-operator:v$(VERSION)
MUST_GATHER_IMAGE ?= quay.io/lvm-storage/lvms-must-gather:v$(VERSION)
BUNDLE_IMAGES = -image $(BUNDLE_IMAGE) -must-gather-image $(MUST_GATHER_IMAGE)

.PHONY: bundle
bundle: $(BIN)/bundle ## Generate the OLM bundle from config/: make bundle VERSION=X.Y.Z BUNDLE_IMAGE=NAME@sha256:... MUST_GATHER_IMAGE=NAME@sha256:...
	@$(BIN)/bundle -version $(VERSION) $(BUNDLE_IMAGES) -out bundle

# A release sets this by digest.
CATALOG_BUNDLE_IMAGE ?= quay.io/lvm-storage/lvms-operator-bundle:v$(VERSION)
OPM = $$($(LAB) programs olm)/opm

.PHONY: catalog
catalog: $(BIN)/catalog $(LAB) ## Add the bundle to the file-based catalog: make catalog VERSION=X.Y.Z CATALOG_BUNDLE_IMAGE=NAME@sha256:...
	@$(BIN)/catalog -opm $(OPM) -bundle bundle -image $(CATALOG_BUNDLE_IMAGE) -out catalog

.PHONY: chart
chart: $(BIN)/chart ## Generate the Helm chart and the page of its values from config/: make chart VERSION=X.Y.Z BUNDLE_IMAGE=NAME@sha256:...
	@$(BIN)/chart -version $(VERSION) -image $(BUNDLE_IMAGE)

.PHONY: chart-package
chart-package: $(BIN)/helm ## Check the Helm chart, and write its archive into .cache/chart.
	@$(BIN)/helm lint --quiet charts/lvms-operator
	@$(BIN)/helm package charts/lvms-operator --destination $(LVMS_CACHE)/chart

##@ Checks

export GOLANGCI_LINT_CACHE := $(LVMS_CACHE)/golangci-lint

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/vale ## Check the Go code (golangci-lint), the prose of documents, comments and messages (vale), and the commit subjects.
	@hack/step "commit subjects" hack/lint-commits
	@hack/step "prose" hack/lint-prose $(BIN)/vale
	@hack/step "golangci-lint" $(BIN)/golangci-lint run ./...

.PHONY: prose
prose: $(BIN)/vale ## Check the prose with vale, including the warnings and suggestions that `make lint` omits.
	@hack/lint-prose $(BIN)/vale --minAlertLevel=suggestion

.PHONY: format
format: $(BIN)/golangci-lint ## Format the Go files.
	@$(BIN)/golangci-lint fmt ./...

.PHONY: verify
verify: $(BIN)/controller-gen $(BIN)/bundle $(BIN)/catalog $(BIN)/chart $(LAB) ## Check that generated files are up to date, that links between documents work, and that OLM's validators accept bundle and catalog.
	@hack/step "verify generated files" hack/verify $(BIN)/controller-gen $(BIN)/bundle -version $(VERSION) $(BUNDLE_IMAGES)
	@opm=$(OPM) && hack/step "verify catalog" hack/verify-catalog $(BIN)/catalog -opm "$$opm" -bundle bundle -image $(CATALOG_BUNDLE_IMAGE)
	@cd hack/bundle && ../step "bundle tests" go test ./...
	@hack/step "verify chart" hack/verify-chart $(BIN)/chart -version $(VERSION) -image $(BUNDLE_IMAGE)
	@cd hack/chart && ../step "chart tests" go test ./...
	@hack/step "links of the documents" go test ./docs

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

##@ Look around

.PHONY: preflight
preflight: ## Check whether this machine can run the lab.
	@hack/preflight

.PHONY: preflight-image
preflight-image:
	@hack/preflight image

.PHONY: packages packages-tests
packages: $(LAB) ## Install missing Debian packages.
	@$(LAB) packages
packages-tests: $(LAB)
	@$(LAB) packages --tests

.PHONY: boot
boot: $(LAB) ## Boot a lab node, to check that the lab works on this machine. Needs the packages.
	@hack/step "boot a node" $(LAB) doctor --boot

.PHONY: lab-up
lab-up: preflight packages ## Start a lab cluster of two nodes with blank disks, without the operator.
	@$(LAB) up --name $(LAB_NAME) --nodes 2 --disks 8G,8G --snapshots

.PHONY: lab-shell
lab-shell: $(LAB) ## Open a shell with kubectl configured for the lab cluster, or on a node: make lab-shell NODE=NAME.
	@$(LAB) shell --name $(LAB_NAME) $(NODE)

.PHONY: lab-kubectl
lab-kubectl: $(LAB) ## Run kubectl on the lab cluster: make lab-kubectl ARGS="get pods -A".
	@$(LAB) kubectl --name $(LAB_NAME) -- $(ARGS)

.PHONY: console
console: console-build $(BIN)/bridge ## Serve the console plugin for the lab cluster, for a browser on this machine: make console LISTEN=127.0.0.1:9000.
	@hack/console host
	@$(BIN)/bridge --lab $(LVMS_CACHE)/labs/$(LAB_NAME) --plugin $(BIN)/console-plugin --host $(CONSOLE)/host/dist --prometheus http://127.0.0.1:9090 --listen $(or $(LISTEN),127.0.0.1:9000)

.PHONY: lab-down
lab-down: $(LAB) ## Stop the lab cluster and delete its files.
	@$(LAB) down --name $(LAB_NAME)

.PHONY: clean
clean: ## Delete .cache, the directory of built programs.
	@rm -rf $(LVMS_CACHE)
