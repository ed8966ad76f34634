package lane

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Slot is what an item keeps busy. Two items run at a time on two processors, and one of them can be on a cluster.
type Slot string

const (
	// Processor is for items without a lab.
	Processor Slot = "processor"
	// Node is for items on a bare lab node.
	Node Slot = "node"
	// Cluster is for items on a lab cluster.
	Cluster Slot = "cluster"
)

// Limit is the longest time that an item may take on an idle machine with two processors, in minutes.
const Limit = 30

// Item is one command that tests something.
type Item struct {
	Name string
	Slot Slot
	// Minutes is the time on an idle machine with two processors that has built the programs before. It is used until
	// results.tsv has a measured time.
	Minutes float64
	// Paths are the directories and files that the item covers: if one has changed since the item passed, the item
	// comes before those that cover no change. The item's own tests are among them. An item without paths covers the
	// whole repository.
	Paths []string
	// Needs are the artifacts of hack/dev that the command uses.
	Needs []string
	// Env are variables of the environment of the command.
	Env []string
	// Dir is the working directory of the command in the repository.
	Dir string
	// Command is run without a shell. The variables of hack/dev are replaced, such as ${BIN}.
	Command []string
	// Repeats is set if the item repeats another one on another flavor of host: it comes after those that do not.
	Repeats bool
}

// Core returns the items of `make test`, the longest first.
func Core() []Item {
	return []Item{
		e2e("core", "", 7, nil, "-ginkgo.label-filter=core"),
		{Name: "env", Slot: Processor, Minutes: 7, Needs: []string{"programs/kubernetes", "helm"},
			Command: []string{"${DEV}", "env-tests"}},
		{Name: "unit", Slot: Processor, Minutes: 3, Needs: []string{"console"},
			Command: []string{"go", "test", "-vet=off", "./..."}},
		console("units", 2.5, []string{"console"}, "${DEV}", "console-units"),
		bare(contract, flavors[0]),
		bare(core, flavors[0]),
		browser("smoke", 1.5),
	}
}

// Checks returns the items that `make check` always runs, before the others.
func Checks() []Item {
	return []Item{
		{Name: "race", Slot: Processor, Minutes: 4, Needs: []string{"console"},
			Env: []string{"CGO_ENABLED=1"}, Command: []string{"go", "test", "-race", "-vet=off", "./..."}},
		{Name: "lint", Slot: Processor, Minutes: 2, Needs: []string{"golangci-lint", "vale", "console"},
			Command: []string{"hack/lint", "${BIN}"}},
		{Name: "verify", Slot: Processor, Minutes: 2,
			Needs:   []string{"controller-gen", "bundle", "catalog", "chart", "programs/opm"},
			Command: []string{"${DEV}", "verify"}},
	}
}

// All returns every item.
func All() []Item { return slices.Concat(Core(), Checks(), Others()) }

// Others returns the items that are neither in Core nor in Checks.
func Others() []Item {
	all := slices.Concat(processorItems(), endToEnd(), bareItems())
	return slices.DeleteFunc(all, func(i Item) bool {
		return slices.ContainsFunc(Core(), func(c Item) bool { return c.Name == i.Name })
	})
}

func processorItems() []Item {
	const env = "./test/env"
	return slices.Concat(releaseItems(), []Item{
		{
			Name:    "race/env",
			Slot:    Processor,
			Minutes: 9,
			Paths:   []string{"controllers", "internal", "cli", "must-gather", "test/env"},
			Needs:   []string{"programs/kubernetes", "helm"},
			Command: []string{"${DEV}", "env-tests", "-race"},
		},
		{
			Name:    "env/kills",
			Slot:    Processor,
			Minutes: 6,
			Paths:   []string{"controllers/volumeimport", "controllers/volumemove", "internal/volume/relocate", env},
			Needs:   []string{"programs/kubernetes"},
			Command: []string{"${DEV}", "env-tests", "kills"},
		},
		{Name: "fips", Slot: Processor, Minutes: 1,
			Paths: []string{"internal/tls/agentca", "internal/tls/mutualtls", "internal/tls/pki",
				"internal/tls/servingcert",
				"internal/tls/tlsprofile", "internal/metrics/scrape", "console-plugin/server"},
			Needs: []string{"console"}, Env: []string{"GODEBUG=fips140=only"},
			Command: []string{"go", "test", "-vet=off", "./internal/tls/agentca/...", "./internal/tls/mutualtls/...",
				"./internal/tls/pki/...", "./internal/tls/servingcert/...", "./internal/tls/tlsprofile/...",
				"./internal/metrics/scrape/...", "./console-plugin/server/...",
				// The random number generator of the module measures time, which stands still in their bubble
				// (testing/synctest). They are about the cache of tokens, and run in unit.
				"-skip", "^(TestAFloodOfTokens|TestWhileTheAPIServerFails|TestAnswersHaveAShare)$"}},
		{
			Name:    "modules",
			Slot:    Processor,
			Minutes: 2,
			Paths:   []string{"go.mod", "hack/tools", "hack/topolvm", "test/lab/programs", "hack/verify-modules"},
			Command: []string{"hack/verify-modules"},
		},
		fuzz("vgmanager", "vgmanager"),
		fuzz("rest", "internal", "must-gather"),
		arch("amd64"), arch("arm64"), arch("ppc64le"), arch("s390x"),
		browser("rest", 12),
		browser("earlier", 6),
	})
}

// earlierReleases are those of [lab.EarlierReleases].
var earlierReleases = []string{"1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"}

// releaseItems are the tests of controllers and admission with the API servers of earlier releases of Kubernetes.
func releaseItems() []Item {
	items := make([]Item, 0, len(earlierReleases))
	for _, release := range earlierReleases {
		items = append(items, Item{
			Name:    "env/" + release,
			Slot:    Processor,
			Minutes: 6,
			Paths: []string{"config", "internal/admission/webhook", "api", "test/env", "internal/cluster/permissions",
				"test/reference", "test/lab/programs/kubernetes-" + release},
			Needs:   []string{"programs/kubernetes-" + release, "helm"},
			Env:     []string{"LVMS_WATCH_CACHE=true"},
			Command: []string{"${DEV}", "env-tests"},
		})
	}
	return items
}

// arch returns the item that compiles the programs for an architecture, and tests packages with binary data on it.
func arch(name string) Item {
	return Item{Name: "arches/" + name, Slot: Processor, Minutes: 8,
		Paths: []string{
			"vgmanager/machine/devicemapper",
			"vgmanager/rescue",
			"vgmanager/lvm/thinmeta",
			"vgmanager/machine/uevent",
			"hack/test-arches",
			"go.mod",
		},
		Needs: []string{"console"}, Command: []string{"hack/test-arches", name}}
}

func fuzz(name string, folders ...string) Item {
	command := []string{"hack/test-fuzz"}
	for _, f := range folders {
		command = append(command, "./"+f+"/...")
	}
	return Item{Name: "fuzz/" + name, Slot: Processor, Minutes: 3, Paths: folders, Command: command}
}

// console returns an item of the console plugin.
func console(name string, minutes float64, needs []string, command ...string) Item {
	return Item{Name: "console/" + name, Slot: Processor, Minutes: minutes, Paths: []string{"console-plugin", "api"},
		Needs: needs, Command: command}
}

// browser returns an item with a group of stories in Chromium, on an API server with the product's admission. The
// group earlier has the build for earlier consoles, in the namespace of the operator there.
func browser(group string, minutes float64) Item {
	needs := []string{"bridge", "console-plugin", "console-host", "programs/kubernetes"}
	if group == "earlier" {
		needs = append(needs, "console-host-earlier")
	}
	return console(group, minutes, needs, "${DEV}", "browser", group)
}

// goTest is the beginning of the command of end-to-end tests. With -v, go test writes the log while they run.
func goTest(limit string) []string {
	return []string{"go", "test", "-v", "-vet=off", "-tags", "e2e", "-count", "1", "-timeout", limit}
}

// e2e returns an item with a package of end-to-end tests, or one chapter of it. folder is the directory in test/e2e.
func e2e(name, folder string, minutes float64, paths []string, args ...string) Item {
	pkg := strings.TrimSuffix("test/e2e/"+folder, "/")
	i := Item{Name: "e2e/" + name, Slot: Cluster, Minutes: minutes,
		Needs: []string{"boot", "image", "programs/cluster"}}
	i.Paths = append([]string{pkg, "test/story", "test/e2e/suite"}, paths...)
	if folder == "" {
		i.Paths[0] = "test/e2e/*"
	}
	i.Command = slices.Concat(goTest("60m"), []string{"./" + pkg, "-ginkgo.v"}, args)
	return i
}

// flavors are the lab's flavors of host, in its order. The first is the default.
var flavors = []string{"debian12", "devicesfile", "devicesfile-absent", "devicesfile-root", "sectors4k", "multipath",
	"readonly-usr", "no-thin-tools", "no-lvm", "many-disks", "lvm31", "lvm31-devicesfile", "kernel61", "selinux"}

// likeTheDefault are the flavors on which LVM and the kernel work as on the default one: they differ in which disks
// the host has, or where its programs are. Of the scenes, those about devices and the core ones run there.
var likeTheDefault = []string{"devicesfile-absent", "devicesfile-root", "multipath", "readonly-usr",
	"many-disks", "selinux"}

// suite is a set of tests that run on a bare lab node. A node starts blank and is deleted afterward, so the suites
// cannot affect each other.
type suite struct {
	name    string
	minutes float64
	pkg     string
	disks   string
	// run and skip are the patterns of the tests.
	run, skip string
	// on returns whether the suite runs on a flavor of host other than the default, with -short. Without it, the suite
	// runs on none.
	on func(flavor string) bool
	// short is set for suites that always run with -short.
	short bool
	paths []string
	// needs are more artifacts that the suite uses.
	needs []string
}

const agentPkg = "vgmanager/group/volumegroup"

// agentPaths are what scenes cover: the agent, from the reconciler of volume groups to the commands of LVM.
var agentPaths = []string{"vgmanager/group/volumegroup", "vgmanager/lvm", "vgmanager/disk/device",
	"vgmanager/disk/direct", "vgmanager/disk/mapped", "vgmanager/disk/health",
	"vgmanager/machine/host", "vgmanager/machine/erase", "vgmanager/machine/stack", "vgmanager/lvm/lvmarchive"}

func onEach(string) bool { return true }

func onOthers(flavor string) bool { return !slices.Contains(likeTheDefault, flavor) }

func onSimilar(flavor string) bool { return slices.Contains(likeTheDefault, flavor) }

const (
	deviceScenes = "Device|Disk|Drain"
	raidScenes   = "RAID|Lost"
	killedScenes = "Lost.*Deaths"
	threeDisks   = "400M,400M,400M"
	// labTests are not TestLabels and the like, which need no node.
	labTests = "^TestLab[A-Z]"
)

var (
	core = suite{name: "core", minutes: 4, pkg: agentPkg, disks: "400M,400M,400M", short: true, on: onSimilar,
		paths: agentPaths,
		run: "^(TestLabLifeOfAThinClass|TestSceneLabelsAreRestored|TestSceneDiskWithContent|TestSceneDrainIsCancelled" +
			"|TestSceneDeletedGroupIsRestored)$"}
	contract = suite{name: "contract", minutes: 2, pkg: "vgmanager/lvm/lvmtest", disks: threeDisks, run: "TestReal",
		on: onEach, paths: []string{"vgmanager/lvm", "vgmanager/machine/host"}}
)

// bareSuites are all suites. Each test with the build tag lab is in one of them, but for those of the lab itself.
var bareSuites = []suite{
	core,
	contract,
	{name: "scenes-devices", minutes: 8, pkg: agentPkg, disks: "400M", on: onEach, paths: agentPaths,
		run: "^TestScene.*(" + deviceScenes + ")", skip: "^TestScene.*(" + raidScenes + ")"},
	{name: "scenes-raid", minutes: 8, pkg: agentPkg, disks: "400M", on: onOthers, paths: agentPaths,
		run: "^TestScene.*(" + raidScenes + ")", skip: "^TestScene.*(" + killedScenes + ")"},
	{name: "scenes-killed", minutes: 8, pkg: agentPkg, disks: "400M", on: onOthers, paths: agentPaths,
		run: "^TestScene.*(" + killedScenes + ")"},
	{name: "scenes-a-h", minutes: 14, pkg: agentPkg, disks: "400M", on: onOthers, paths: agentPaths,
		run: "^TestScene[A-H]", skip: "^TestScene.*(" + deviceScenes + "|" + raidScenes + ")"},
	{name: "scenes-i-s", minutes: 12, pkg: agentPkg, disks: "400M", on: onOthers, paths: agentPaths,
		run: "^TestScene[I-S]", skip: "^TestScene.*(" + deviceScenes + "|" + raidScenes + ")"},
	{name: "scenes-t-z", minutes: 14, pkg: agentPkg, disks: "400M", on: onOthers, paths: agentPaths,
		run: "^TestScene[T-Z]", skip: "^TestScene.*(" + deviceScenes + "|" + raidScenes + ")"},
	{name: "agent", minutes: 4, pkg: agentPkg, disks: threeDisks, on: onEach, paths: agentPaths, run: labTests},
	{name: "device", minutes: 2, pkg: "vgmanager/disk/device", disks: "128M,64M,64M", on: onEach, run: labTests,
		paths: []string{"vgmanager/disk/direct", "vgmanager/disk/mapped"}},
	{name: "sanity", minutes: 3, pkg: "test/sanity", disks: "4G,4G,4G,4G", on: onEach, run: "^TestSanity",
		paths: []string{"internal/csi", "vgmanager/csinode", "vgmanager/volume/engine",
			"vgmanager/volume/logicalvolume"}},
	{name: "topolvm", minutes: 4, pkg: "test/sanity", disks: "4G,4G,4G,4G", run: "^TestTopoLVM",
		needs: []string{"topolvm"},
		paths: []string{"go.mod", "internal/csi", "vgmanager/csinode", "vgmanager/volume/engine",
			"vgmanager/volume/logicalvolume", "vgmanager/volume/lvmd"}},
	{name: "kill", minutes: 12, pkg: agentPkg, disks: "400M", paths: agentPaths, run: "^TestKilled"},
	{name: "limits", minutes: 12, pkg: agentPkg, disks: "400M", paths: agentPaths, run: "^TestLimit"},
	{name: "engine", minutes: 9, pkg: "vgmanager/volume/engine", disks: "1G",
		run:   "^Test(AVolumeGrowsByWhat|AVolumeOfTheTold|Filling|Extending|Lab[A-Z])",
		paths: []string{"vgmanager/lvm"}},
	{name: "lvmd", minutes: 1, pkg: "vgmanager/volume/lvmd", disks: "1G", run: labTests,
		paths: []string{"vgmanager/lvm", "vgmanager/volume/engine"}},
	{name: "move", minutes: 4, pkg: "vgmanager/lvm/lvmtest", disks: threeDisks, run: "^TestA",
		paths: []string{"vgmanager/lvm", "vgmanager/machine/host"}},
	{name: "health", minutes: 3, pkg: "vgmanager/disk/health", disks: "320M", run: labTests},
	{name: "uevent", minutes: 1, pkg: "vgmanager/machine/uevent", disks: "320M,64M,64M", run: labTests},
	{name: "volumes", minutes: 3, pkg: "vgmanager/volume/logicalvolume", disks: "400M,400M", run: labTests,
		paths: []string{"vgmanager/volume/identity"}},
	{name: "audit", minutes: 1, pkg: "vgmanager/volume/audit", disks: "400M,400M", run: labTests},
	{name: "devicemapper", minutes: 1, pkg: "vgmanager/machine/devicemapper", disks: "320M", run: labTests},
	{name: "smart", minutes: 1, pkg: "vgmanager/disk/smart", disks: "64M", run: labTests},
	{name: "inventory", minutes: 1, pkg: "vgmanager/group/inventory", disks: "64M", run: labTests},
	{name: "collect", minutes: 1, pkg: "vgmanager/outside/collect", disks: "320M,64M", run: labTests},
	{name: "rescue", minutes: 3, pkg: "vgmanager/rescue", disks: "scsi:400M,scsi:400M", run: labTests},
	{name: "trim", minutes: 2, pkg: "vgmanager/volume/fstrim", disks: "800M", run: labTests,
		paths: []string{"internal/volume/activecache"}},
	{name: "thinmeta", minutes: 2, pkg: "vgmanager/lvm/thinmeta", disks: "800M", run: labTests},
	{name: "changedblocks", minutes: 2, pkg: "vgmanager/lvm/changedblocks", disks: "400M", run: labTests},
	{name: "agentserver", minutes: 1, pkg: "vgmanager/outside/agentserver", disks: "400M", run: labTests},
	{name: "groups", minutes: 6, pkg: "vgmanager/volume/groupsnapshot", disks: "800M", run: labTests},
	{name: "copies", minutes: 3, pkg: "vgmanager/volume/copies", disks: "400M,400M", run: labTests,
		paths: []string{"vgmanager/machine/blockdevice"}},
	{name: "node-service", minutes: 4, pkg: "vgmanager/csinode", disks: "800M", run: labTests,
		on: func(flavor string) bool { return flavor == "selinux" }},
	// The records of LVM's reports that the unit tests decode, compared with the LVM of Debian 12.
	{name: "records", minutes: 3, pkg: "vgmanager/lvm/output", run: "^TestRecordedScenariosOnRealLVM$",
		disks: "400M,400M,400M,400M,400M,scsi:300M,scsi:300M,scsi:300M,scsi:300M,scsi:300M"},
}

func bareItems() []Item {
	all := []Item{
		{Name: "lab", Slot: Node, Minutes: 6, Paths: []string{"test/lab"}, Needs: []string{"boot", "programs/cluster"},
			Command: []string{"go", "test", "-vet=off", "-tags", "lab", "-p", "1", "-count", "1", "-timeout", "40m",
				"./test/lab/..."}},
	}
	for _, s := range bareSuites {
		all = append(all, bare(s, flavors[0]))
	}
	for _, flavor := range flavors[1:] {
		for _, s := range bareSuites {
			if s.on != nil && s.on(flavor) {
				all = append(all, bare(s, flavor))
			}
		}
	}
	return all
}

// bare returns the item of a suite on a flavor of host. The suite runs in the directory of its package, as with
// `go test`.
func bare(s suite, flavor string) Item {
	name := strings.Replace(s.name+"-"+flavor, "devicesfile", "devfile", 1) // A lab's name has at most 32 characters.
	place := slices.Index(flavors, flavor)
	binary := strings.ReplaceAll(s.pkg, "/", "-")
	i := Item{
		Name: "bare/" + s.name + "/" + flavor, Slot: Node, Minutes: s.minutes, Dir: s.pkg, Repeats: place > 0,
		Paths: append([]string{s.pkg}, s.paths...),
		Needs: append([]string{"boot", "rootfs", "programs/kubernetes", "bare/" + s.pkg}, s.needs...),
		Command: []string{"${LAB}", "bare-test", "--name", name, "--flavor", flavor, "--disks", s.disks, "--",
			"/usr/bin/env", "LVMS_TEST_ROOTFS=${ROOTFS}", "LVMS_TEST_TOPOLVM=${TOPOLVM_FILES}",
			"KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS}",
			CaseEnv + "=" + strconv.Itoa(place), "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=5m",
			"KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=5m", "TMPDIR=/run",
			fmt.Sprintf("${BARE}/%s.test", binary), "-test.v", "-test.timeout=60m", "-test.run", s.run},
	}
	if place == 0 && s.pkg == agentPkg && !s.short {
		// The times of disasters that the documents have are those with the intervals of a node.
		i.Command = slices.Insert(i.Command, slices.Index(i.Command, "/usr/bin/env")+1, "LVMS_MEASURE=true")
	}
	if s.short || place > 0 {
		i.Minutes = max(1, s.minutes/2)
		i.Command = append(i.Command, "-test.short")
	}
	if s.skip != "" {
		i.Command = append(i.Command, "-test.skip", s.skip)
	}
	return i
}
