//go:build e2e

package moves

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// patch changes the spec of the move of a claim.
func patch(ctx SpecContext, claim, spec string) {
	GinkgoHelper()
	cluster.Run(ctx, "patch", "volumemove", "-n", story.OperatorNamespace, moveOf(ctx, claim).Name, "--type=merge", "-p",
		`{"spec":`+spec+`}`)
}

// remove deletes the move of a claim, and waits until it is gone.
func remove(ctx SpecContext, claim string) {
	GinkgoHelper()
	cluster.Run(ctx, "delete", "volumemove", "-n", story.OperatorNamespace, moveOf(ctx, claim).Name, story.Timeout)
}

// writeLines appends numbered lines to a file of a volume, one fsync for each, until the Pod ends. The last one is the
// data that a move must not lose.
const writeLines = `(i=0; while i=$((i+1)); do echo $i >>/data/lines || exit; sync /data/lines || exit; ` +
	`echo $i >/tmp/synced; done) >/dev/null 2>&1 &`

// moves moves a volume to which its Pod writes. The old logical volume is kept until its time has come.
func moves(ctx SpecContext) {
	v := data("written", "node1")
	sum := begin(ctx, v)
	_, err := cluster.Shell(ctx, namespace, v.Name, writeLines)
	Expect(err).NotTo(HaveOccurred())
	lvms(ctx, "move", "-n", namespace, v.Name, "--to", "node2", "--yes", "--wait=false")

	By("waiting for the Pod")
	move := reach(ctx, v.Name, v1alpha1.MoveWaitingForPods)
	Expect(move.Status.Pods).To(Equal([]string{namespace + "/" + v.Name}))
	Expect(move.Status.Round).To(BeNumerically(">=", 1))
	Expect(lvms(ctx, "moves", "-o", "wide")).To(MatchRegexp(`written.*node1.*node2.*WaitingForPods`))
	persistentVolume, logicalVolume := nodeOf(ctx, v.Name)
	Expect([]string{persistentVolume, logicalVolume}).To(Equal([]string{"node1", "node1"}))

	By("ending the Pod")
	var synced string
	Eventually(func(g Gomega) { // The file is empty for a moment before each line.
		synced, err = cluster.Shell(ctx, namespace, v.Name, "cat /tmp/synced")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.TrimSpace(synced)).NotTo(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
	Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
	ended := time.Now()
	move = reach(ctx, v.Name, v1alpha1.MoveKeepingSource)
	GinkgoWriter.Printf("switched %s after the end of the Pod\n", time.Since(ended).Round(time.Millisecond))
	Eventually(func() bool {
		move = moveOf(ctx, v.Name)
		return move.Status.SourceRemovalTime != nil
	}).WithContext(ctx).Should(BeTrue())
	Expect(move.Status.SourceRemovalTime.Time).To(BeTemporally("~", move.Status.SwitchTime.Add(24*time.Hour), time.Minute))
	v.Node = "node2"
	startsOn(ctx, v, sum)
	lines, err := cluster.Shell(ctx, namespace, v.Name, "grep -cx '"+strings.TrimSpace(synced)+"' /data/lines")
	Expect(err).NotTo(HaveOccurred())
	Expect(strings.TrimSpace(lines)).To(Equal("1"), "line %s is not in the moved volume", synced)
	onlyVolumes(ctx, "node1", 1)
	onlyVolumes(ctx, "node2", 1)

	By("removing the old logical volume")
	patch(ctx, v.Name, `{"keepSource":"0s"}`)
	reach(ctx, v.Name, v1alpha1.MoveCompleted)
	onlyVolumes(ctx, "node1", 0)
	onlyClaims(ctx)
	remove(ctx, v.Name)
	isOn(ctx, v, sum)

	By("expanding, and taking a snapshot, on the new node")
	_, err = cluster.Expand(ctx, v, v.Name, "400Mi")
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.Snapshot(ctx, v, "of-moved")).To(Succeed())
	Expect(cluster.RemoveSnapshot(ctx, namespace, "of-moved")).To(Succeed())
	removed(ctx, v)
	onlyVolumes(ctx, "node2", 0)
}

// undoes deletes a move that waits for a Pod.
func undoes(ctx SpecContext) {
	v := data("undone", "node1")
	sum := begin(ctx, v)
	lvms(ctx, "move", "-n", namespace, v.Name, "--yes", "--wait=false")
	move := reach(ctx, v.Name, v1alpha1.MoveWaitingForPods)
	Expect(move.Status.TargetNode).To(Equal("node2"))
	onlyVolumes(ctx, "node2", 1)
	remove(ctx, v.Name)
	onlyVolumes(ctx, "node2", 0)
	onlyVolumes(ctx, "node1", 1)
	onlyClaims(ctx)
	isOn(ctx, v, sum)
	removed(ctx, v)
}

// kill kills the node agents of both nodes and the operator. They start again at once.
func kill(ctx SpecContext) {
	GinkgoHelper()
	for _, node := range []string{"node1", "node2"} {
		cluster.OnNode(ctx, node, "pkill", "-KILL", "-f", "^/lvms vgmanager")
	}
	cluster.Run(ctx, "delete", "pods", "-n", story.OperatorNamespace, "-l", "app.kubernetes.io/name=lvms-operator",
		"--grace-period=0", "--force")
}

// isKilled kills everything again and again while a volume is moved there and back. Whatever is killed, the volume is
// on one node with its data.
func isKilled(ctx SpecContext) {
	v := data("killed", "node1")
	sum := begin(ctx, v)
	for i, target := range []string{"node2", "node1"} {
		lvms(ctx, "move", "-n", namespace, v.Name, "--to", target, "--yes", "--wait=false")
		patch(ctx, v.Name, `{"keepSource":"0s"}`)
		kill(ctx)
		reach(ctx, v.Name, v1alpha1.MoveWaitingForPods)
		kill(ctx)
		Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
		if i == 0 {
			Eventually(func() v1alpha1.VolumeMovePhase { return moveOf(ctx, v.Name).Status.Phase }).WithContext(ctx).
				WithPolling(100 * time.Millisecond).
				ShouldNot(Equal(v1alpha1.MoveWaitingForPods))
		}
		kill(ctx)
		reach(ctx, v.Name, v1alpha1.MoveCompleted)
		v.Node = target
		startsOn(ctx, v, sum)
		remove(ctx, v.Name)
		onlyClaims(ctx)
	}
	onlyVolumes(ctx, "node1", 1)
	onlyVolumes(ctx, "node2", 0)
	removed(ctx, v)
}

const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: evacuated, namespace: default}
spec:
  selector: {matchLabels: {app: evacuated}}
  strategy: {type: Recreate}
  template:
    metadata: {labels: {app: evacuated}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: IMAGE
        command: [sh, -c, "cat /data/node >/data/seen; sleep 2147483647"]
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: evacuated}}]
`

// evacuates empties a node on which a Deployment uses a volume: its next Pod starts on the other node.
func evacuates(ctx SpecContext) {
	v := data("evacuated", "node1")
	begin(ctx, v)
	_, err := cluster.Shell(ctx, namespace, v.Name, "echo node1 >/data/node && sync")
	Expect(err).NotTo(HaveOccurred())
	image := cluster.Run(ctx, "get", "pod", "-n", namespace, v.Name, "-o", "jsonpath={.spec.containers[0].image}")
	Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
	Expect(cluster.ApplyManifest(ctx, strings.ReplaceAll(workload, "IMAGE", image))).To(Succeed())
	cluster.Run(ctx, "rollout", "status", "-n", namespace, "deployment/evacuated", story.Timeout)

	Expect(lvms(ctx, "evacuate", "node1", "--dry-run")).To(ContainSubstring(namespace + "/evacuated"))
	Expect(moveOf(ctx, v.Name)).To(BeNil())
	Expect(lvms(ctx, "evacuate", "node1", "--yes")).To(ContainSubstring("kubectl drain node1"))
	reach(ctx, v.Name, v1alpha1.MoveWaitingForPods)
	cluster.Run(ctx, "cordon", "node1")
	cluster.Run(ctx, "delete", "pods", "-n", namespace, "-l", "app=evacuated")
	reach(ctx, v.Name, v1alpha1.MoveKeepingSource)
	cluster.Run(suite.Limited(ctx, 10*time.Minute), "rollout", "status", "-n", namespace, "deployment/evacuated",
		"--timeout=8m")
	pod := cluster.Run(ctx, "get", "pods", "-n", namespace, "-l", "app=evacuated", "-o",
		`jsonpath={.items[0].metadata.name} {.items[0].spec.nodeName}`)
	name, node, _ := strings.Cut(pod, " ")
	Expect(node).To(Equal("node2"))
	seen, err := cluster.Shell(ctx, namespace, name, "cat /data/seen")
	Expect(err).NotTo(HaveOccurred())
	Expect(strings.TrimSpace(seen)).To(Equal("node1"))
	cluster.Run(ctx, "uncordon", "node1")

	By("removing the old logical volume with the move")
	remove(ctx, v.Name)
	onlyVolumes(ctx, "node1", 0)
	onlyClaims(ctx)
	cluster.Run(ctx, "delete", "deployment", "-n", namespace, "evacuated", story.Timeout)
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}
