package lane

import "slices"

// storyFlavors are the flavors of host on which the story of core runs, besides Debian 12. Not multipath: the disks of
// its nodes are plain ones, and a plain disk has one path. Not no-lvm: the story checks results with LVM of the node;
// test/e2e/components has a story for it.
func storyFlavors() []string {
	return slices.DeleteFunc(
		slices.Clone(flavors[1:]),
		func(f string) bool { return f == "multipath" || f == "no-lvm" },
	)
}

// part is a package of end-to-end tests, or what a label selects of it.
type part struct {
	name    string // of the item, without the prefix e2e/
	folder  string // in test/e2e
	label   string
	minutes float64
	needs   []string
	paths   []string
	env     []string
}

// The artifacts of installations by OLM.
var (
	olmNeeds   = []string{"bundle", "catalog", "programs/olm", "programs/opm"}
	olmV1Needs = []string{"bundle", "catalog", "next-image", "programs/olm-v1", "programs/service-ca", "programs/opm"}
)

// parts are all end-to-end tests besides the label core.
var parts = []part{
	{name: "volumes", label: "volumes", minutes: 8,
		paths: []string{"vgmanager/csinode", "vgmanager/machine/cgroup", "internal/csi/driver",
			"internal/csi/objects", "internal/csi/placement", "internal/csi/supply", "internal/csi/volumespec",
			"internal/volume/iolimits", "internal/volume/service"}},
	{
		name:    "sharing",
		label:   "sharing",
		minutes: 8,
		paths: []string{"internal/csi", "internal/admission/webhook", "internal/admission/webhookserver",
			"vgmanager/outside/capacity",
			"vgmanager/machine/bounded"},
	},
	{
		name:    "disks",
		label:   "disks",
		minutes: 10,
		paths: []string{"vgmanager/volume/engine", "vgmanager/disk/health", "vgmanager/disk/device",
			"vgmanager/disk/direct", "vgmanager/disk/mapped", "internal/cluster/wwn", "internal/volume/classspec"},
	},
	{name: "nodes", label: "nodes", minutes: 11,
		paths: []string{
			"controllers/lvmcluster",
			"controllers/node",
			"controllers/standby",
			"controllers/statuscopy",
			"internal/kube/apply",
			"internal/kube/condition",
			"internal/admission/deletionwebhook",
			"internal/kube/nodeannotations",
			"internal/kube/taint",
		}},
	{name: "backup", folder: "backup", minutes: 5,
		paths: []string{
			"internal/csi/snapshotmetadata",
			"vgmanager/lvm/changedblocks",
			"vgmanager/outside/agentserver",
			"internal/tls/streamserver",
			"internal/tls/limit",
			"internal/tls/mutualtls",
		}},
	{name: "catalog", folder: "catalog", minutes: 6, needs: append([]string{"next-image"}, olmNeeds...),
		paths: []string{
			"bundle",
			"catalog",
			"test/olm",
			"internal/cluster/olm",
			"controllers/alertrules",
			"internal/version",
		}},
	{name: "commands", folder: "commands", minutes: 4, needs: []string{"gather", "kubectl-lvms", "helm"},
		paths: []string{"docs", "monitoring/runbooks"}},
	{name: "components/openshift", folder: "components", label: "openshift", minutes: 8,
		needs: []string{"programs/service-ca", "programs/prometheus-operator", "programs/network-policies"},
		paths: []string{
			"config/openshift",
			"controllers/networkpolicies",
			"controllers/metricsaccess",
			"controllers/agentcert",
			"vgmanager/outside/agentcert",
			"vgmanager/outside/metrics",
			"internal/metrics/metric",
			"internal/metrics/scrape",
			"internal/tls/servingcert",
		}},
	{
		name:    "components/anywhere",
		folder:  "components",
		label:   "anywhere",
		minutes: 4,
		needs:   []string{"programs/prometheus-operator"},
		paths:   []string{"monitoring/prometheus-operator", "internal/cluster/hostpaths"},
	},
	{
		name:    "components/microshift",
		folder:  "components",
		label:   "microshift",
		minutes: 4,
		paths:   []string{"vgmanager/volume/engine", "internal/cluster/platform"},
	},
	{
		name:    "components/nolvm",
		folder:  "components",
		label:   "nolvm",
		minutes: 4,
		paths:   []string{"vgmanager/machine/host", "hack/rootfs"},
	},
	{name: "copies", folder: "copies", label: "!full", minutes: 17, needs: []string{"kubectl-lvms"}, paths: copyPaths},
	{name: "copies/full", folder: "copies", label: "full", minutes: 9, needs: []string{"kubectl-lvms"},
		paths: append([]string{"controllers/volumemove"}, copyPaths...)},
	{name: "encryption", folder: "encryption", minutes: 9, paths: []string{"vgmanager/csinode",
		"vgmanager/machine/luks"}},
	{name: "extender", folder: "extender", minutes: 5, paths: []string{"internal/topolvm/extender",
		"internal/admission/podwebhook"}},
	{name: "freeze", folder: "freeze", minutes: 25, needs: []string{"freeze-image"},
		paths: []string{"internal/liveness", "test/freeze", "vgmanager/machine/host/counter.go"}},
	{name: "gather", folder: "gather", minutes: 5, needs: []string{"gather", "gather-image"},
		paths: []string{"must-gather", "internal/verdict", "vgmanager/outside/collect", "internal/cluster/gatherindex",
			"internal/kube/paging"}},
	{name: "groupsnapshot", folder: "groupsnapshot", minutes: 17,
		paths: []string{"vgmanager/volume/groupsnapshot", "internal/csi/groupsnapshot",
			"internal/volume/groupprotocol"}},
	{name: "images", folder: "images", minutes: 3, needs: []string{"gather-image"},
		paths: []string{"hack/image", "hack/rootfs", "cmd/lvms", "internal/metrics/memory"}},
	{
		name:    "images/fips",
		folder:  "images",
		minutes: 5,
		needs:   []string{"fips-images"},
		env:     fipsImages,
		paths:   []string{"hack/image", "hack/dev"},
	},
	{name: "kubernetes", folder: "kubernetes", minutes: 17, needs: []string{"programs/storage-tests"},
		paths: []string{"internal/csi", "vgmanager/csinode", "vgmanager/volume/engine",
			"test/lab/programs/storagetests"}},
	{
		name:    "monitoring",
		folder:  "monitoring",
		minutes: 5,
		paths: []string{"monitoring", "vgmanager/disk/health", "vgmanager/disk/smart", "internal/metrics/scrape",
			"internal/tls/limit",
			"internal/tls/httpserver"},
	},
	{name: "moves", folder: "moves", label: "!lost", minutes: 17, needs: []string{"kubectl-lvms"}, paths: movePaths},
	{name: "moves/lost", folder: "moves", label: "lost", minutes: 9, needs: []string{"kubectl-lvms"},
		paths: append([]string{"vgmanager/volume/logicalvolume"}, movePaths...)},
	{name: "nodeagent", folder: "nodeagent", minutes: 18,
		paths: []string{
			"controllers/nodeprobe",
			"vgmanager/volume/fstrim",
			"vgmanager/csinode",
			"vgmanager/machine/erase",
			"internal/liveness",
			"vgmanager/doc.go",
		}},
	{
		name:    "olmv1",
		folder:  "olmv1",
		minutes: 12,
		needs:   olmV1Needs,
		paths:   []string{"bundle", "catalog", "test/olm"},
	},
	{name: "openshift", folder: "openshift", minutes: 6, needs: []string{"upstream-image", "next-image"},
		paths: []string{
			"config/openshift",
			"controllers/consoleplugin",
			"internal/cluster/platform",
			"internal/tls/tlsprofile",
			"internal/cluster/clusterid",
			"controllers/installed",
		}},
	{
		name:    "openshift/fips",
		folder:  "openshift",
		minutes: 9,
		needs:   []string{"upstream-image", "next-image", "fips-images"},
		env:     fipsImages,
		paths:   []string{"config/openshift", "internal/tls/tlsprofile", "go.mod"},
	},
	{name: "plugin", folder: "plugin", minutes: 12, needs: []string{"kubectl-lvms"},
		paths: []string{"cli", "cmd/kubectl-lvms", "internal/verdict", "internal/volume/recoveryplan",
			"vgmanager/machine/fsck", "internal/kube/text", "internal/kube/event"}},
	{
		name:    "previous",
		folder:  "previous",
		minutes: 15,
		needs:   append([]string{"previous"}, olmNeeds...),
		paths:   []string{"bundle", "api", "config"},
	},
	{
		name:    "replicas",
		folder:  "replicas",
		minutes: 9,
		paths:   []string{"controllers/standby", "internal/csi/driver", "internal/csi/objects"},
	},
	{name: "comeback/reinstalled", folder: "comeback", label: "reinstalled", minutes: 3, paths: comebackPaths},
	{name: "comeback/devicesfile", folder: "comeback", label: "devicesfile", minutes: 3, paths: comebackPaths},
	{name: "comeback/etcd", folder: "comeback", label: "etcd", minutes: 3, paths: comebackPaths},
	{name: "comeback/relocated", folder: "comeback", label: "relocated", minutes: 4,
		paths: append([]string{"controllers/volumemove", "vgmanager/volume/logicalvolume"}, comebackPaths...)},
	{name: "comeback/moved", folder: "comeback", label: "moved", minutes: 3, paths: comebackPaths},
	{name: "comeback/cluster", folder: "comeback", label: "cluster", minutes: 3, paths: comebackPaths},
	{name: "comeback/deleted", folder: "comeback", label: "deleted", minutes: 3, paths: comebackPaths},
	{name: "comeback/image", folder: "comeback", label: "image", minutes: 3, paths: comebackPaths},
	{
		name:    "namespace/manifests",
		folder:  "namespace",
		label:   "manifests",
		minutes: 4,
		paths:   []string{"config", "internal/cluster/permissions"},
	},
	{
		name:    "namespace/helm",
		folder:  "namespace",
		label:   "helm",
		minutes: 8,
		needs:   []string{"next-image", "helm"},
		paths:   []string{"charts", "hack/chart"},
	},
	{
		name:    "namespace/olm",
		folder:  "namespace",
		label:   "olm",
		minutes: 9,
		needs:   append([]string{"gather", "next-image"}, olmNeeds...),
		paths:   []string{"bundle", "controllers/metricsaccess", "monitoring/access"},
	},
	{
		name:    "selinux",
		folder:  "selinux",
		minutes: 6,
		paths:   []string{"vgmanager/csinode", "hack/rootfs", "controllers/lvmcluster/operand"},
	},
	{
		name:    "growth",
		folder:  "growth",
		minutes: 6,
		paths:   []string{"controllers/lvmcluster", "controllers/node", "internal/kube/apply"},
	},
	{
		name:    "alpha",
		folder:  "alpha",
		minutes: 5,
		paths: []string{"controllers/volumehealth", "controllers/volumeimport", "internal/volume/health",
			"internal/volume/relocate", "vgmanager/csinode", "vgmanager/volume/audit"},
	},
	{name: "tenants", folder: "tenants", minutes: 15, paths: tenantPaths},
	// What is requested does not depend on the flavor of host.
	{
		name:    "tenants/devicesfile",
		folder:  "tenants",
		label:   "content",
		minutes: 9,
		env:     []string{"LVMS_TEST_FLAVOR=devicesfile"},
		paths:   tenantPaths,
	},
	{
		name:    "topolvm/chart",
		folder:  "topolvm",
		label:   "chart",
		minutes: 12,
		needs:   []string{"topolvm-image", "helm", "kubectl-lvms"},
		paths:   []string{"internal/csi/driver", "docs/how-to/switch-from-topolvm.md"},
	},
	{
		name:    "topolvm/earlier",
		folder:  "topolvm",
		label:   "earlier",
		minutes: 12,
		needs:   []string{"topolvm-image", "helm", "kubectl-lvms"},
		paths:   []string{"controllers/volumeimport", "internal/topolvm/legacy"},
	},
}

var copyPaths = []string{"internal/csi/clone", "internal/volume/fence", "internal/volume/relocate",
	"internal/volume/room", "internal/volume/view",
	"vgmanager/volume/copies", "internal/cluster/agentpod", "internal/volume/snapshotref"}

var movePaths = []string{"controllers/volumemove", "internal/volume/fence", "vgmanager/volume/copies",
	"internal/volume/relocate", "internal/volume/view",
	"internal/volume/room", "internal/kube/periodic"}

// fipsImages select the images whose programs have the certified FIPS 140-3 module, as those of a release.
var fipsImages = []string{
	"LVMS_FIPS_MODULE=certified",
	"LVMS_IMAGE=${IMAGE_FIPS}",
	"LVMS_GATHER_IMAGE=${GATHER_IMAGE_FIPS}",
}

var tenantPaths = []string{
	"internal/csi/driver",
	"internal/csi/volumespec",
	"internal/volume/service",
	"internal/metrics/scrape",
	"test/layers",
	"vgmanager/disk/device",
	"vgmanager/disk/mapped",
	"vgmanager/lvm",
	"vgmanager/volume/engine",
	"vgmanager/machine/stack",
}

var comebackPaths = []string{"controllers/volumeimport", "controllers/node", "internal/cluster/clusterid",
	"internal/cluster/removednode"}

func endToEnd() []Item {
	var all []Item
	for _, p := range parts {
		var args []string
		if p.label != "" {
			args = append(args, "-ginkgo.label-filter="+p.label)
		}
		i := e2e(p.name, p.folder, p.minutes, p.paths, args...)
		if p.label == "" {
			// A whole suite uses each permission that test/permissions says it uses.
			i.Env = []string{"LVMS_PERMISSIONS=${PERMISSIONS}"}
		}
		i.Env = append(i.Env, p.env...)
		i.Needs = append(i.Needs, p.needs...)
		all = append(all, i)
	}
	for _, flavor := range storyFlavors() {
		i := e2e("core/"+flavor, "", 5, nil, "-ginkgo.label-filter=core")
		i.Env, i.Repeats = []string{"LVMS_TEST_FLAVOR=" + flavor}, true
		all = append(all, i)
	}
	return append(
		all,
		Item{
			Name:    "soak",
			Slot:    Cluster,
			Minutes: 13,
			Paths:   []string{"vgmanager", "internal/csi", "controllers", "test/soak"},
			Needs:   []string{"boot", "image", "programs/cluster"},
			Command: []string{"go", "run", "./test/soak", "--image", "${IMAGE}", "--for", "10m",
				"--logs", "${CACHE}/soak-logs"},
		},
	)
}
