//go:build e2e

package groupsnapshot

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

// rounds is how often a group is taken while Pods write.
const rounds = 3

// writers are Pods that write a sequence number to one volume, with fsync, and then to another one, and so on. Two
// volumes of one node have one Pod. Those of two nodes have one Pod on each, which wait for each other.
const (
	oneNode = `
apiVersion: v1
kind: Pod
metadata: {name: both-FIRST, namespace: default}
spec:
  nodeSelector: {kubernetes.io/hostname: node1}
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: IMAGE
    command: [/bin/sh, -c, 'PUT n=0; while :; do n=$((n+1)); put /a $n; put /b $n; done']
    volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}]
  volumes:
  - {name: a, persistentVolumeClaim: {claimName: FIRST}}
  - {name: b, persistentVolumeClaim: {claimName: SECOND}}
`
	second = `
apiVersion: v1
kind: Pod
metadata: {name: second, namespace: default}
spec:
  nodeSelector: {kubernetes.io/hostname: node2}
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: IMAGE
    command:
    - /bin/sh
    - -c
    - PUT mkfifo /tmp/p; nc -l -p 7000 < /tmp/p | while read n; do put /d $n; echo $n; done > /tmp/p; sleep 86400
    volumeMounts: [{name: d, mountPath: /d}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: d}}]
`
	first = `
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: default}
spec:
  nodeSelector: {kubernetes.io/hostname: node1}
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: IMAGE
    command:
    - /bin/sh
    - -c
    - >-
      PUT mkfifo /tmp/p;
      (n=0; while :; do n=$((n+1)); put /c $n; echo $n; read m <&3 || exit 1; done) 3< /tmp/p |
      nc ADDRESS 7000 > /tmp/p; sleep 86400
    volumeMounts: [{name: c, mountPath: /c}]
  volumes: [{name: c, persistentVolumeClaim: {claimName: c}}]
`
	// put writes a number of 8 digits over the last one, and flushes it.
	put = `put() { printf %08d $2 | dd of=$1/number conv=notrunc,fsync 2>/dev/null || exit 1; };`
)

const groupManifest = `
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshot
metadata: {name: NAME, namespace: default}
spec:
  volumeGroupSnapshotClassName: lvms-vg1
  source: {selector: {matchLabels: {group: LABEL}}}
`

func claim(ctx SpecContext, name, group, class string) story.Volume {
	GinkgoHelper()
	v := story.Volume{Namespace: namespace, Name: name, Class: class, Size: "400Mi",
		Labels: map[string]string{"group": group}}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	return v
}

func start(ctx SpecContext, manifest, pod, address string) {
	GinkgoHelper()
	Expect(cluster.ApplyManifest(ctx, strings.NewReplacer("IMAGE", cluster.Lab.Registry()+"/busybox:1", "PUT", put,
		"ADDRESS", address).Replace(manifest))).To(Succeed())
	Expect(cluster.WaitRunning(ctx, namespace, pod)).To(Succeed())
}

// startOnOneNode starts a Pod that writes to two claims of node1 in turns.
func startOnOneNode(ctx SpecContext, first, second string) {
	GinkgoHelper()
	start(ctx, strings.NewReplacer("FIRST", first, "SECOND", second).Replace(oneNode), "both-"+first, "")
}

// takeGroup creates a VolumeGroupSnapshot and waits until it is ready.
func takeGroup(ctx SpecContext, name, label string) {
	GinkgoHelper()
	createGroup(ctx, name, label)
	Eventually(func() string { return ready(ctx, name) }).WithContext(ctx).Should(Equal("true"))
}

func createGroup(ctx SpecContext, name, label string) {
	GinkgoHelper()
	Expect(cluster.ApplyManifest(ctx, strings.NewReplacer("NAME", name, "LABEL", label).Replace(groupManifest))).To(
		Succeed())
}

func ready(ctx SpecContext, name string) string {
	GinkgoHelper()
	return cluster.Run(ctx, "get", "volumegroupsnapshot", name, "-o", "jsonpath={.status.readyToUse}")
}

// snapshotsOf returns the VolumeSnapshots of a group by their claims.
func snapshotsOf(ctx SpecContext, group string) map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	out := cluster.Run(ctx, "get", "volumesnapshots", "-o", `jsonpath={range .items[*]}`+
		`{.metadata.ownerReferences[0].name} {.spec.source.persistentVolumeClaimName} {.metadata.name}{"\n"}{end}`)
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == group {
			found[fields[1]] = fields[2]
		}
	}
	return found
}

// number restores the snapshot of a claim and returns the number in it.
func number(ctx SpecContext, claim, snapshot string) int {
	GinkgoHelper()
	v := story.Volume{Namespace: namespace, Name: "restored", Class: classOf(claim), Size: "400Mi", Snapshot: snapshot}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "reader")).To(Succeed())
	out, err := cluster.Shell(ctx, namespace, "reader", "cat /data/number")
	Expect(err).NotTo(HaveOccurred())
	n, err := strconv.Atoi(strings.TrimLeft(strings.TrimSpace(out), "0"))
	Expect(err).NotTo(HaveOccurred(), "%q", out)
	Expect(cluster.StopPod(ctx, namespace, "reader")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	return n
}

// skew returns by how much the number of the first volume is ahead of that of the second one. It is 0 or 1 at every
// moment.
func skew(ctx SpecContext, of map[string]string, first, second string) int {
	GinkgoHelper()
	a, b := number(ctx, first, of[first]), number(ctx, second, of[second])
	AddReportEntry(fmt.Sprintf("%s %d, %s %d", first, a, second, b))
	return a - b
}

// controls takes a snapshot of each volume, one after the other. It fails unless they are of different moments: then
// the numbers would not show a group that is torn.
func controls(ctx SpecContext, first, second string) {
	GinkgoHelper()
	By("taking snapshots one by one")
	of := map[string]string{}
	for _, claim := range []string{second, first} {
		of[claim] = "single-" + claim
		// The VolumeSnapshotClass has the name of the device class, also for an encrypted volume.
		v := story.Volume{Namespace: namespace, Name: claim, Class: class}
		Expect(cluster.Snapshot(ctx, v, of[claim])).To(Succeed())
	}
	Expect(skew(ctx, of, first, second)).To(BeNumerically(">", 1), "the numbers do not show a torn group")
	for _, snapshot := range of {
		Expect(cluster.RemoveSnapshot(ctx, namespace, snapshot)).To(Succeed())
	}
}

func isNotTorn(ctx SpecContext, group, label, first, second string) {
	GinkgoHelper()
	takeGroup(ctx, group, label)
	of := snapshotsOf(ctx, group)
	Expect(of).To(And(HaveLen(2), HaveKey(first), HaveKey(second)))
	Expect(skew(ctx, of, first, second)).To(BeElementOf(0, 1), "the group is torn")
	nothingIsSuspended(ctx)
}

// suspended returns the suspended devices of both nodes.
func suspended(ctx SpecContext) string {
	GinkgoHelper()
	var all []string
	for _, node := range []string{"node1", "node2"} {
		out := cluster.OnNode(ctx, node, "/bin/sh", "-c", "dmsetup info -c --noheadings -o name,suspended")
		Expect(out).To(ContainSubstring(":Active"), node)
		for line := range strings.Lines(out) {
			if strings.Contains(line, ":Suspended") {
				all = append(all, node+": "+strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(all, ", ")
}

func nothingIsSuspended(ctx SpecContext) {
	GinkgoHelper()
	Expect(suspended(ctx)).To(BeEmpty())
}

func takesGroupOfOneNode(ctx SpecContext) {
	claim(ctx, "a", "one", class)
	claim(ctx, "b", "one", class)
	startOnOneNode(ctx, "a", "b")
	controls(ctx, "a", "b")
	for i := range rounds {
		By(fmt.Sprint("taking group ", i))
		isNotTorn(ctx, fmt.Sprint("one-", i), "one", "a", "b")
	}
}

func takesGroupOfTwoNodes(ctx SpecContext) {
	claim(ctx, "c", "two", class)
	claim(ctx, "d", "two", class)
	start(ctx, second, "second", "")
	address := cluster.Run(ctx, "get", "pod", "second", "-o", "jsonpath={.status.podIP}")
	start(ctx, first, "first", address)
	Eventually(func() (string, error) { return cluster.Shell(ctx, namespace, "second", "cat /d/number") }).
		WithContext(ctx).Should(MatchRegexp(`0*[1-9]`))
	controls(ctx, "c", "d")
	for i := range rounds {
		By(fmt.Sprint("taking group ", i))
		isNotTorn(ctx, fmt.Sprint("two-", i), "two", "c", "d")
	}
}

// survivesDeadAgent kills an agent of the group at different moments. The group is complete in the end.
func survivesDeadAgent(ctx SpecContext) {
	for i, delay := range []time.Duration{0, time.Second, 2 * time.Second} {
		group := fmt.Sprint("killed-", i)
		createGroup(ctx, group, "two")
		time.Sleep(delay)
		cluster.OnNode(ctx, "node2", "/bin/sh", "-c", "pkill -KILL -f '[l]vms vgmanager'")
		Eventually(func() string { return ready(ctx, group) }).WithContext(ctx).Should(Equal("true"))
		nothingIsSuspended(ctx)
		Expect(skew(ctx, snapshotsOf(ctx, group), "c", "d")).To(BeElementOf(0, 1), "the group is torn")
	}
}

// survivesDeadOperator kills the operator and its standby, or deletes the Pod of the operator, at different moments of
// a group. The volumes are resumed without it, and the next operator completes the group.
func survivesDeadOperator(ctx SpecContext) {
	const kill = "pkill -KILL -f '^/lvms operator' || true"
	for i, delay := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second} {
		group := fmt.Sprint("orphaned-", i)
		createGroup(ctx, group, "two")
		time.Sleep(delay)
		killed := cluster.Run(ctx, "get", "volumegroupsnapshotcontents,logicalvolumes.topolvm.io", "-o",
			`jsonpath={range .items[*]}{.metadata.annotations.lvm\.topolvm\.io/group-request} {end}`)
		if i%2 == 0 {
			for _, node := range []string{"node1", "node2"} {
				cluster.OnNode(ctx, node, "/bin/sh", "-c", kill)
			}
		} else {
			cluster.Run(ctx, "delete", "pods", "-n", story.OperatorNamespace, "-l",
				"app.kubernetes.io/name=lvms-operator", "--grace-period=0", "--force")
		}
		AddReportEntry(group+" when the operator was killed", killed)
		Eventually(suspended).WithContext(ctx).Should(BeEmpty())
		Eventually(func() string { return ready(ctx, group) }).WithContext(ctx).Should(Equal("true"))
		nothingIsSuspended(ctx)
		Expect(skew(ctx, snapshotsOf(ctx, group), "c", "d")).To(BeElementOf(0, 1), "the group is torn")
	}
}

// takesEncryptedVolumes takes groups with a plain volume and an encrypted one, which is suspended below its file
// system.
func takesEncryptedVolumes(ctx SpecContext) {
	cluster.Run(ctx, "create", "secret", "generic", "lvms-key", "-n", namespace,
		"--from-literal=key=Zmlyc3QgZmlyc3QgZmlyc3QgZmlyc3QgZmlyc3Q=")
	claim(ctx, secretClaim, "secret", classOf(secretClaim))
	claim(ctx, "plain", "secret", class)
	startOnOneNode(ctx, secretClaim, "plain")
	controls(ctx, secretClaim, "plain")
	for i := range rounds {
		By(fmt.Sprint("taking group ", i))
		isNotTorn(ctx, fmt.Sprint("secret-", i), "secret", secretClaim, "plain")
	}
}

func refusesThickVolumes(ctx SpecContext) {
	v := claim(ctx, "thick", "mixed", "lvms-thick")
	Expect(cluster.StartPod(ctx, v, "thick")).To(Succeed())
	createGroup(ctx, "mixed", "mixed")
	Eventually(func() string {
		return cluster.Run(ctx, "get", "volumegroupsnapshotcontents", "-o", "jsonpath={.items[*].status.error.message}")
	}).WithContext(ctx).Should(ContainSubstring(
		"a group snapshot can only have thin volumes"))
	cluster.Run(ctx, "delete", "volumegroupsnapshot", "mixed", story.Timeout)
	Expect(cluster.StopPod(ctx, namespace, "thick")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}

// took matches what the operator logs about a complete group.
var took = regexp.MustCompile(`took a group snapshot.*"volumes":(\d+),"nodes":(\d+),"suspended":"([^"]+)",` +
	`("freezing":"[^"]+","waited":"[^"]+")`)

// suspendsBriefly compares the time for which volumes are suspended with the time of the whole group: LVM creates the
// pending snapshots before, and makes them usable afterward.
func suspendsBriefly(ctx SpecContext) {
	for i := range 10 {
		v := claim(ctx, fmt.Sprint("many-", i), "many", class)
		v.Node = fmt.Sprint("node", 1+i%2)
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		_, err := cluster.Shell(ctx, namespace, v.Name, "(while :; do date >> /data/log; sync; sleep 0.2; done) "+
			">/dev/null 2>&1 &")
		Expect(err).NotTo(HaveOccurred())
	}
	var groups []time.Duration
	for i := range rounds {
		begun := time.Now()
		takeGroup(ctx, fmt.Sprint("many-", i), "many")
		groups = append(groups, time.Since(begun))
	}
	var times []time.Duration
	var waits []string
	log := cluster.Run(ctx, "logs", "-n", story.OperatorNamespace, "-l",
		"app.kubernetes.io/name=lvms-operator", "--tail=-1")
	for _, match := range took.FindAllStringSubmatch(log, -1) {
		if match[1] != "10" || match[2] != "2" {
			continue
		}
		suspended, err := time.ParseDuration(match[3])
		Expect(err).NotTo(HaveOccurred())
		times, waits = append(times, suspended), append(waits, match[4])
	}
	AddReportEntry("ten volumes on two nodes were suspended for", fmt.Sprint(times, ", of which ", waits,
		"; the groups took ", groups))
	Expect(times).To(HaveLen(rounds), log)
	Expect(slices.Max(times)).To(BeNumerically("<", slices.Max(groups)/2))
	nothingIsSuspended(ctx)
}

// removesGroups deletes all groups. Their logical volumes are removed from both nodes, and nothing of a failed attempt
// is left. A claim that was restored from a member stays.
func removesGroups(ctx SpecContext) {
	takeGroup(ctx, "source", "two")
	survivor := story.Volume{Namespace: namespace, Name: "survivor", Class: class, Size: "400Mi",
		Snapshot: snapshotsOf(ctx, "source")["d"]}
	Expect(cluster.Claim(ctx, survivor)).To(Succeed())
	Expect(cluster.StartPod(ctx, survivor, "survivor")).To(Succeed())
	before, err := cluster.Shell(ctx, namespace, "survivor", "cat /data/number")
	Expect(err).NotTo(HaveOccurred())
	members := groupMembers(ctx)
	for _, node := range []string{"node1", "node2"} {
		Expect(members).To(ContainElement(HavePrefix(node+" ")), "%v", members)
	}
	By("deleting groups that are being created")
	for i, delay := range []time.Duration{0, time.Second} {
		createGroup(ctx, fmt.Sprint("withdrawn-", i), "two")
		time.Sleep(delay)
		cluster.Run(ctx, "delete", "volumegroupsnapshot", fmt.Sprint("withdrawn-", i), "--wait=false")
	}
	By("deleting all groups")
	deleteGroups(ctx)
	nothingIsSuspended(ctx)
	Expect(cluster.Shell(ctx, namespace, "survivor", "cat /data/number")).To(Equal(before))
	Expect(cluster.StopPod(ctx, namespace, "survivor")).To(Succeed())
}

// groupMembers returns the node and the logical volume of each snapshot of a group.
func groupMembers(ctx SpecContext) []string {
	GinkgoHelper()
	out := cluster.Run(ctx, "get", "logicalvolumes.topolvm.io", "-l", "lvm.topolvm.io/group-snapshot", "-o",
		`jsonpath={range .items[*]}{.spec.nodeName} {.status.volumeID}{"\n"}{end}`)
	return strings.Split(strings.TrimSpace(out), "\n")
}

// deleteGroups deletes all groups, and checks that no object and no logical volume of a snapshot is left.
func deleteGroups(ctx SpecContext) {
	GinkgoHelper()
	members := groupMembers(ctx)
	cluster.Run(ctx, "delete", "volumegroupsnapshots", "--all", story.Timeout)
	Eventually(func() string {
		return cluster.Run(ctx, "get", "logicalvolumes.topolvm.io", "-l", "lvm.topolvm.io/group-snapshot", "-o",
			"name") +
			cluster.Run(ctx, "get", "volumegroupsnapshotcontents,volumesnapshotcontents,volumesnapshots", "-o", "name")
	}).WithContext(ctx).WithTimeout(12*time.Minute).Should(BeEmpty(), "the snapshot-controller repeats with delays")
	for _, node := range []string{"node1", "node2"} {
		left := strings.Fields(cluster.OnNode(ctx, node, "/bin/sh", "-c", "lvs --noheadings -o lv_name"))
		Expect(left).NotTo(BeEmpty(), node)
		for _, member := range members {
			Expect(left).NotTo(ContainElement(strings.TrimPrefix(member, node+" ")), node)
		}
		Expect(cluster.OnNode(ctx, node, "/bin/sh", "-c",
			"lvs --noheadings -o lv_name,lv_tags -S tags=lvms.group.pending")).To(BeEmpty(), node)
	}
}

// keepsTheClusterOfAGroup deletes the claims and the LVMCluster: this one stays until the group is deleted.
func keepsTheClusterOfAGroup(ctx SpecContext) {
	takeGroup(ctx, "last", "two")
	cluster.Run(ctx, "delete", "pods,pvc", "--all", story.Timeout)
	cluster.Run(ctx, "delete", "lvmcluster", "my-lvmcluster", "-n", story.OperatorNamespace, "--wait=false")
	message := func() string {
		return cluster.Run(ctx, "get", "lvmcluster", "my-lvmcluster", "-n", story.OperatorNamespace, "-o",
			`jsonpath={.status.conditions[?(@.type=="ResourcesAvailable")].message}`)
	}
	Eventually(message).WithContext(ctx).Should(MatchRegexp(
		`the storage is still in use by 2 LogicalVolumes: snapshot-.* on node node[12]`))
	Expect(message()).NotTo(ContainSubstring("must be deleted manually"))
	Expect(ready(ctx, "last")).To(Equal("true"))
	Expect(groupMembers(ctx)).To(HaveLen(2))
	cluster.Run(ctx, "delete", "volumegroupsnapshot", "last", story.Timeout)
	Eventually(func() string {
		return cluster.Run(ctx, "get", "lvmclusters", "-A", "-o", "name")
	}).WithContext(ctx).Should(BeEmpty())
	for _, node := range []string{"node1", "node2"} {
		Expect(cluster.OnNode(ctx, node, "/bin/sh", "-c", "vgs --noheadings -o vg_name")).To(BeEmpty(), node)
	}
}
