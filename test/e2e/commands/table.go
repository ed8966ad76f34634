package commands

import (
	"regexp"
	"slices"
	"strings"
)

// reads matches read-only kubectl commands.
var reads = regexp.MustCompile(`^kubectl( -n \S+)? (get|describe|logs|rollout status|wait)\b[^|>&;]*$`)

// onNode matches a command that an agent runs on its node, or in its container.
var onNode = regexp.MustCompile(
	`^kubectl -n openshift-lvm-storage exec \$AGENT -- (?:nsenter -t 1 -m -u -i -n -- )?(?:timeout 60 )?(.*)$`)

// readers are the read-only programs of a node, or the beginnings of their commands.
var readers = []string{
	"lvs", "vgs", "pvs", "lsblk", "dmesg", "findmnt", "ps", "cat", "smartctl --all", "dmsetup info", "udevadm settle",
	"systemctl status", "journalctl",
}

// ReadsOnly reports whether a command is read-only. The test runs such commands unchanged, and they must succeed.
func (c Command) ReadsOnly() bool {
	if m := onNode.FindStringSubmatch(c.Text); m != nil {
		return slices.ContainsFunc(readers, func(reader string) bool {
			return m[1] == reader ||
				strings.HasPrefix(m[1], reader+" ")
		})
	}
	return reads.MatchString(c.Text)
}

// quiet are parts of commands that may have no output.
var quiet = []string{`[?(@.status!="True")]`, "[?(@.metadata.annotations.lvm", "get events", "get lvmrec", "dmesg", "udevadm settle",
	"journalctl", ".excluded", "-o 'custom-columns=NAME:.metadata.name,SECRET", "logs $AGENT", "logs POD --since",
	"describe resourcequota", "get volumegroupsnapshot"}

// refused are commands that fail here, with their expected output: containers that were never restarted have no
// previous log, and the exit code of smartctl says that a virtual disk reports no health.
var refused = map[string]string{
	kubectl + "exec $AGENT -- smartctl --all /dev/sdX":                          "=== START OF INFORMATION SECTION ===",
	"kubectl -n openshift-lvm-storage logs POD --previous":                      "previous terminated container",
	"kubectl -n openshift-lvm-storage logs deployment/lvms-operator --previous": "previous terminated container",
}

// Step runs a command that changes something, on temporary objects of the test.
type Step struct {
	Text string
	// Before runs first, with the variables of the page. It creates the objects for the command, and sets the variables
	// in With.
	Before string
	// With has the values for the words in capitals.
	With map[string]string
	// After waits until the cluster is healthy again.
	After string
}

const (
	kubectl = "kubectl -n openshift-lvm-storage "
	host    = kubectl + "exec $AGENT -- nsenter -t 1 -m -u -i -n -- "
	// agents and operators wait for the replacement of deleted Pods.
	agents    = kubectl + "rollout status daemonset/vg-manager --timeout=120s"
	operators = kubectl + "rollout status deployment/lvms-operator --timeout=120s"
)

// steps are in the order of their execution. Volumes are in use at first.
var steps = []Step{
	{Text: "kubectl -n NAMESPACE edit pvc NAME", With: map[string]string{"NAME": "data"}},
	{Text: kubectl + "edit lvmcluster"},
	{Text: host + "dmsetup resume NAME", Before: "NAME=$(" + host +
		"dmsetup info --columns --noheadings -o name | grep -m1 ^vg1-)"},
	{Text: `kubectl patch pv NAME --patch '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`,
		With: map[string]string{"NAME": "$(kubectl get pv -o jsonpath='{.items[0].metadata.name}')"}},
	{Text: host + "lvextend --poolmetadatasize +1g $CLASS/POOL", With: map[string]string{"POOL": "thin-pool-1"}},
	{Text: host + "lvchange --refresh $CLASS/NAME", Before: mirror},
	{Text: host + "lvchange --minrecoveryrate 100M $CLASS/NAME", Before: mirror},
	{Text: host + "lvchange --maxrecoveryrate 0 $CLASS/NAME", Before: mirror},
	{Text: kubectl + "exec $AGENT -- /lvms rescue --from /dev/$CLASS/NAME --to /proc/1/root/mnt/rescue/data.img",
		Before: mirror + "; " + host + "mkdir -p /mnt/rescue",
		After:  host + "grep -q saved /mnt/rescue/data.img.map && " + host + "rm -r /mnt/rescue"},
	{Text: kubectl + `patch lvmrec NAME --type merge --patch '{"spec":{"approvedPlan":"PLAN"}}'`,
		Before: kubectl + "create -f - <<<'" + recovery + "'",
		With:   map[string]string{"NAME": "lost", "PLAN": "none"},
		After: "until " + kubectl + "get lvmrec lost -o jsonpath='{.status.message}' | grep -q 'no device is missing'; " +
			"do sleep 1; done; " + kubectl + "delete lvmrec lost"},
	{Text: "kubectl -n NAMESPACE delete volumesnapshot NAME", With: map[string]string{"NAME": "snap"}},
	{Text: "kubectl delete persistentvolume NAME", Before: "kubectl apply -f - <<<'" + retained + "'",
		With: map[string]string{"NAME": "thrown-away"}},
	{Text: "kubectl delete volumesnapshotcontent NAME", Before: "kubectl apply -f - <<<'" + retainedContent + "'",
		With: map[string]string{"NAME": "thrown-away"}},
	{Text: "kubectl annotate logicalvolume NAME lvm.topolvm.io/allow-deletion=true",
		Before: "kubectl apply -f - <<<'" + volume + "'", With: map[string]string{"NAME": "thrown-away"}},
	{Text: "kubectl delete logicalvolume NAME", With: map[string]string{"NAME": "thrown-away"}},
	{Text: "kubectl -n NAMESPACE delete pod POD", With: map[string]string{"POD": "data"}},
	{Text: "kubectl -n NAMESPACE delete pvc NAME", With: map[string]string{"NAME": "data"},
		After: "until [ -z \"$(" + host +
			"lvs --noheadings -o lv_name --select 'pool_lv!=\"\"' vg1)\" ]; do sleep 1; done"},
	{Text: kubectl + "exec -it $AGENT -- nsenter -t 1 -m -u -i -n -- vgremove GROUP",
		With: map[string]string{"GROUP": "foreign"}},
	{Text: "kubectl create namespace volume-keys"},
	{Text: "kubectl -n volume-keys create secret generic lvms-key --from-file=key", Before: newKey},
	{Text: "kubectl -n volume-keys get secret lvms-key -o jsonpath='{.data.key}' | base64 -d > previousKey",
		Before: "cd $(mktemp -d)", After: "[ $(wc -c < previousKey) = 44 ]"},
	{Text: "kubectl -n volume-keys create secret generic lvms-key --from-file=key --from-file=previousKey  " +
		"--dry-run=client -o yaml | kubectl replace -f -",
		Before: newKey + "; cp key previousKey", After: "kubectl delete namespace volume-keys"},
	{Text: kubectl + "delete $AGENT", After: agents},
	{Text: kubectl + "delete pod POD", After: agents},
	{Text: kubectl + "delete secret vg-manager-metrics-cert",
		Before: kubectl + "create secret generic vg-manager-metrics-cert"},
	{Text: kubectl +
		"set env deployment/lvms-operator RUNBOOK_BASE_URL=https://git.example.com/lvm-operator/monitoring/runbooks/",
		After: operators},
	{Text: kubectl + "delete pod -l app.kubernetes.io/name=lvms-operator", After: operators},
	{Text: kubectl + "rollout restart deployment/lvms-operator", After: operators},
	{Text: kubectl + "delete pod -l 'app.kubernetes.io/name in (lvms-operator, vg-manager)'", After: operators + "; " + agents},
}

// newKey writes the key of encrypted volumes to the file key.
const newKey = "cd $(mktemp -d); head -c 32 /dev/urandom | base64 -w 0 > key"

// mirror finds a redundant volume.
const mirror = "CLASS=safe; NAME=$(" + host + "lvs --noheadings -o lv_name --select segtype=raid1 safe | tr -d ' ')"

// retained is a PersistentVolume whose claim was deleted.
const retained = `{apiVersion: v1, kind: PersistentVolume, metadata: {name: thrown-away}, spec: {accessModes: [ReadWriteOnce],
  capacity: {storage: 64Mi}, persistentVolumeReclaimPolicy: Retain, csi: {driver: topolvm.io, volumeHandle: thrown-away}}}`

// retainedContent is a VolumeSnapshotContent whose snapshot was deleted.
const retainedContent = `{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotContent,
  metadata: {name: thrown-away}, spec: {deletionPolicy: Retain, driver: topolvm.io,
  source: {snapshotHandle: thrown-away}, volumeSnapshotRef: {namespace: default, name: thrown-away}}}`

// volume is a LogicalVolume to which no PersistentVolume refers.
const volume = `{apiVersion: topolvm.io/v1, kind: LogicalVolume, metadata: {name: thrown-away},
  spec: {name: thrown-away, nodeName: node1, deviceClass: vg1, size: 64Mi}}`

// recovery finds nothing to recover.
const recovery = `{apiVersion: lvm.topolvm.io/v1alpha1, kind: LVMRecovery, metadata: {name: lost},
  spec: {nodeName: node1, deviceClassName: vg1, action: RemoveLostDevices}}`

// pagesElsewhere maps pages to the file and name of a test that runs all their commands in order.
var pagesElsewhere = map[string][2]string{
	"half-deleted.md": {"test/env/halfdeleted_test.go", "TestAHalfDeletedInstallationIsRecovered"},
	"switch-from-topolvm.md": {"test/e2e/topolvm/suite_test.go",
		"continues with the volumes of TopoLVM while a Pod writes, and can go back"},
	"migrate-earlier-topolvm.md": {"test/e2e/topolvm/suite_test.go",
		"serves the volumes of topolvm.cybozu.com while a Pod writes, and migrates them"},
	"scheduler-extender.md": {"test/e2e/extender/suite_test.go", "is turned off, and Pods are created without marks"},
}

// pagesNotRun maps pages whose commands no test runs to the reason.
var pagesNotRun = map[string]string{
	"release.md": "it publishes images and a catalog",
}

// The tests for commands that this cluster cannot run.
var (
	gathers     = [2]string{"test/e2e/gather/gather_test.go", "run as `oc adm must-gather` runs it"}
	analyzes    = [2]string{"test/e2e/gather/gather_test.go", "w.sameOffline(ctx, folder)"}
	builds      = [2]string{"hack/dev/artifacts.go", "\"gather-image\": {"}
	lostNodes   = [2]string{"controllers/node/claims_env_test.go", "TestWhatBecomesOfClaimsWithTheirNode"}
	helm        = [2]string{"test/e2e/namespace/helm_test.go", "installs, upgrades and removes it with Helm"}
	removes     = [2]string{"test/e2e/storage_test.go", "leaves no object behind, and blank disks, when it is removed"}
	uninstall   = [2]string{"test/story/cluster.go", "func (c *Cluster) Uninstall"}
	bySub       = [2]string{"test/e2e/catalog/catalog_test.go", "RUNBOOK_BASE_URL"}
	versions    = [2]string{"test/e2e/catalog/catalog_test.go", `c.Kubectl(ctx, nil, "get", "csv"`}
	channels    = [2]string{"test/e2e/catalog/catalog_test.go", "is upgraded through its channel"}
	unsub       = [2]string{"test/e2e/catalog/catalog_test.go", "c.Unsubscribe(ctx)"}
	extension   = [2]string{"test/e2e/olmv1/olmv1_test.go", "is installed with the manifest of the documentation"}
	noMore      = [2]string{"test/e2e/olmv1/olmv1_test.go", "when it is removed after its LVMCluster"}
	takenOver   = [2]string{"test/e2e/openshift/openshift_test.go", "takes over the objects and volumes of upstream"}
	partial     = [2]string{"vgmanager/rescue/lab_test.go", "func TestLabAVolumeWithAPartOnAMissingDisk"}
	labels      = [2]string{"cli/roles_env_test.go", "label worker-1 /dev/sdc tier=fast"}
	moved       = [2]string{"cli/move/move_test.go", "func TestMove"}
	movedBack   = [2]string{"test/e2e/moves/back_test.go", "func movesBack"}
	evacuated   = [2]string{"cli/move/move_test.go", "func TestEvacuate"}
	wideVolumes = [2]string{"cli/view/command_test.go", "func TestOutputOfEachCommand"}
	upgraded    = [2]string{"test/e2e/openshift/openshift_test.go", "is upgraded while a Pod writes"}
)

// elsewhere maps commands to the test that runs them, or a similar command: the file and a text in it.
var elsewhere = map[string][2]string{
	"make image": builds,
	"make deploy IMG=registry.example.com/lvms-operator:0.2.0 CONFIG=config/default": {"test/story/cluster.go",
		"installs it as `make deploy` does"},
	"make deploy IMG=registry.example.com/lvms-operator:0.2.0 CONFIG=config/default NAMESPACE=openshift-storage": {
		"test/e2e/namespace/story_test.go", "cluster.Install(ctx"},
	"kubectl create namespace openshift-lvm-storage":                                                  helm,
	"kubectl label namespace openshift-lvm-storage pod-security.kubernetes.io/enforce=privileged":     helm,
	helmIn + "install lvms charts/lvms-operator " + helmImage:                                         helm,
	helmIn + "install lvms charts/lvms-operator --take-ownership " + helmImage:                        helm,
	helmIn + "upgrade lvms charts/lvms-operator --reset-then-reuse-values --set-string image.tag=NEW": helm,
	helmIn + "uninstall lvms":         helm,
	helmIn + "history lvms":           helm,
	helmIn + "rollback lvms REVISION": helm,
	"kubectl delete crd lvmclusters.lvm.topolvm.io lvmvolumegroups.lvm.topolvm.io " +
		"lvmvolumegroupnodestatuses.lvm.topolvm.io lvmrecoveries.lvm.topolvm.io lvmdeviceapprovals.lvm.topolvm.io volumemoves.lvm.topolvm.io logicalvolumes.topolvm.io": helm,
	"make undeploy CONFIG=config/default NAMESPACE=openshift-storage": {"test/e2e/namespace/story_test.go",
		"cluster.Undeploy(ctx"},
	"kubectl apply -f config/samples/lvm_v1alpha1_lvmcluster.yaml": {"test/e2e/catalog/catalog_test.go",
		`"config/samples/lvm_v1alpha1_lvmcluster.yaml"`},
	"kubectl annotate node NODE lvm.topolvm.io/release-claims=true": lostNodes,
	"kubectl get node NODE -o jsonpath='{.metadata.finalizers}'": {"test/e2e/comeback/deleted_test.go",
		"jsonpath={.metadata.finalizers}"},
	"kubectl delete node NODE": lostNodes,
	"kubectl apply -k monitoring/prometheus-operator": {"test/e2e/components/anywhere_test.go",
		"kubectl apply -k monitoring/prometheus-operator"},

	"kubectl get csv -n openshift-lvm-storage":                                         versions,
	kubectl + "describe csv":                                                           versions,
	kubectl + "get csv":                                                                versions,
	kubectl + "get subscription,installplan,csv":                                       versions,
	kubectl + "delete subscription lvms-operator":                                      unsub,
	kubectl + "delete subscription --all":                                              unsub,
	kubectl + "delete csv --all":                                                       unsub,
	kubectl + "delete operatorgroup --all":                                             unsub,
	kubectl + "delete csv -l operators.coreos.com/lvms-operator.openshift-lvm-storage": unsub,
	kubectl +
		`patch subscription lvms-operator --type merge --patch '{"spec":{"channel":"stable-X.Y"}}'`: channels,
	"oc " + subscription +
		`"RUNBOOK_BASE_URL","value":"https://git.example.com/lvm-operator/monitoring/runbooks/"}]}}}'`: bySub,
	"oc " + subscription + `"SMART_INTERVAL","value":"1h"}]}}}'`:      bySub,
	"oc " + subscription + `"NODE_PROBE_INTERVAL","value":"1h"}]}}}'`: bySub,
	"oc " + subscription + `"VOLUME_METRICS","value":"0"}]}}}'`:       bySub,

	"kubectl wait clusterextension lvms-operator --for=condition=Installed --timeout=5m":                                              extension,
	`kubectl get clusterextension lvms-operator -o jsonpath='{range .status.conditions[*]}{.type}{": "}{.message}{"\n"}{end}'`:        extension,
	`kubectl get clusterextension lvms-operator -o jsonpath='{.status.install.bundle.version}{"\n"}'`:                                 extension,
	`kubectl patch clusterextension lvms-operator --type merge --patch '{"spec":{"source":{"catalog":{"channels":["stable-X.Y"]}}}}'`: extension,
	"kubectl delete clusterextension lvms-operator":                                                                                   noMore,
	"kubectl delete clustercatalog lvms":                           noMore,
	"kubectl delete clusterrolebinding,clusterrole lvms-installer": noMore,

	host + "lvchange --activate y --activationmode partial $CLASS/NAME": partial,

	"kubectl lvms label NODE DEVICE tier=fast": labels,
	"kubectl lvms volumes -o wide":             wideVolumes,

	"kubectl get snapshotmetadataservices.cbt.storage.k8s.io topolvm.io -o yaml": {"test/e2e/backup/backup_test.go",
		`"get", published, "topolvm.io"`},
	"kubectl lvms move -n shop data --to worker-2 --wait=false":                        moved,
	"kubectl lvms moves -o wide":                                                       {"cli/move/move_test.go", `plugin.Run(t, c, "moves")`},
	"kubectl lvms move shop/data --back":                                               movedBack,
	"kubectl taint node NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute": movedBack,
	"kubectl lvms balance":                                                             {"cli/move/balance_test.go", `plugin.Run(t, c, "balance")`},
	"kubectl lvms evacuate worker-1 --dry-run":                                         evacuated,
	"kubectl lvms evacuate worker-1":                                                   evacuated,
	"kubectl drain worker-1 --ignore-daemonsets --delete-emptydir-data":                evacuated,
	"kubectl annotate volumemove -n openshift-lvm-storage NAME lvm.topolvm.io/allow-source-removal=true": {
		"controllers/volumemove/move_api_test.go", "AllowSourceRemovalAnnotation"},
	"kubectl delete volumemove -n openshift-lvm-storage NAME": {"controllers/volumemove/kill_test.go",
		"func TestAMoveIsUndone"},

	kubectl + "delete lvmcluster my-lvmcluster":      removes,
	"kubectl delete -k config/default":               uninstall,
	"kubectl delete namespace openshift-lvm-storage": uninstall,
	"kubectl kustomize config/default | sed 's#image: lvms-operator:latest#image: " +
		"registry.example.com/lvms-operator:NEW#' | kubectl apply --server-side --force-conflicts -f -": upgraded,
	"kubectl get lvmcluster,lvmvolumegroup,lvmvolumegroupnodestatus -A -o yaml > lvms-before.yaml": takenOver,
	"kubectl get logicalvolumes -o yaml > logicalvolumes-before.yaml":                              takenOver,

	"oc adm must-gather --image=registry.example.com/lvms-must-gather:0.2.0": gathers,
	`oc adm must-gather --image=$(oc get csv -n openshift-lvm-storage -l operators.coreos.com/lvms-operator.openshift-lvm-storage -o jsonpath='{.items[0].metadata.annotations.operators\.openshift\.io/must-gather-image}')`: gathers,
	".cache/bin/gather --dest-dir=./must-gather":         gathers,
	".cache/bin/gather check":                            analyzes,
	".cache/bin/gather analyze must-gather.local.123456": analyzes,
}

// The beginning of commands of Helm, and the values for an image.
const (
	helmIn    = "helm -n openshift-lvm-storage "
	helmImage = "--set image.repository=registry.example.com/lvms-operator --set-string image.tag=0.2.0"
)

// subscription is the beginning of commands that set an environment variable of the operator.
const subscription = `-n openshift-lvm-storage patch subscription lvms-operator --type merge -p '{"spec":{"config":{"env":[{"name":`

// Reasons why no test runs a command.
const (
	noOC       = "the lab has no oc; LVM's command is run through the agent"
	noSystemd  = "the lab's nodes have no systemd"
	noRegistry = "it copies an image to a registry outside of the lab"
)

// notRun maps commands that no test runs to the reason.
var notRun = map[string]string{
	"oc debug node/$NODE -- chroot /host dmesg --level err,warn --ctime":            noOC,
	"oc debug node/$NODE -- chroot /host ps -eo pid,stat,wchan,args":                noOC,
	"oc debug node/$NODE -- chroot /host lvs -a $CLASS":                             noOC,
	"oc -n openshift-service-ca get pods":                                           "OpenShift has the namespace",
	"oc label namespace openshift-lvm-storage openshift.io/cluster-monitoring=true": "the lab has no oc; config/manager/namespace.yaml has the label",
	host +
		"systemctl status systemd-udevd": noSystemd,
	host + "systemctl restart systemd-udevd": noSystemd,
	"lsblk --fs /dev/sdX":                    "it is for a shell on the node; the same is run through the agent",
	"skopeo copy oci-archive:.cache/image/lvms-operator.tar docker://registry.example.com/lvms-operator:0.2.0": noRegistry,
	"skopeo copy --all oci-archive:.cache/image/lvms-operator-index.tar " +
		"docker://registry.example.com/lvms-operator:0.2.0": noRegistry,
	`kubectl patch crd lvmclusters.lvm.topolvm.io lvmvolumegroups.lvm.topolvm.io lvmvolumegroupnodestatuses.lvm.topolvm.io lvmrecoveries.lvm.topolvm.io lvmdeviceapprovals.lvm.topolvm.io volumemoves.lvm.topolvm.io logicalvolumes.topolvm.io --type json --patch '[{"op":"remove","path":"/metadata/ownerReferences"}]'`: "it is for an installation whose ClusterExtension was deleted too early",
}

// listed reports whether a table lists a command.
func listed(c Command) bool {
	return pageListed(c.Page) || elsewhere[c.Text][0] != "" || notRun[c.Text] != ""
}

// stepOf returns the step of a command, or nil.
func stepOf(c Command) *Step {
	i := slices.IndexFunc(steps, func(s Step) bool { return s.Text == c.Text })
	if i < 0 {
		return nil
	}
	return &steps[i]
}

// pageListed reports whether the tables list a page, so that this test does not run its commands.
func pageListed(page string) bool { return pagesElsewhere[page][0] != "" || pagesNotRun[page] != "" }
